// Package inventory reads and writes files that describe existing hosts: our own
// YAML, an Ansible inventory (INI or YAML) or an OpenSSH client config. It connects
// to nothing and changes nothing.
//
//	hosts:                       # our own YAML
//	  web-1:
//	    address: web-1.example   # a name or an IP address
//	    user: dev
//	    port: 2222               # default 22
//	    labels: {gpu: no}
//	    slots: 8
//	    jump: bastion            # a host of this file or of the zone
//	    identity: /etc/fairlead/id_ed25519      # a path on the workers
//	    root: /srv/fairlead      # a path on the host
//	    host_keys: [ssh-ed25519 AAAA…]          # or SHA256:…
//	    known_hosts: /etc/fairlead/known_hosts  # instead of host_keys; a path on the workers
//
// From an Ansible inventory it uses groups, their children, ranges of names, and the
// variables ansible_host, ansible_port, ansible_user, ansible_ssh_private_key_file,
// ansible_ssh_common_args (ProxyJump, -J), ansible_connection, and ours:
// fairlead_labels, fairlead_slots, fairlead_root, fairlead_jump, fairlead_host_keys,
// fairlead_known_hosts. A host's variable wins over its group's, that over the parent
// group's, and that over the one of group all. A host gets the label group.NAME=yes
// for each group that it is in, directly or through children, except all and
// ungrouped. group_vars, host_vars, templates and vaults are not read.
//
// In an OpenSSH config every concrete name after Host is a host. Patterns contribute
// their settings, and the first value wins. The package uses HostName, User, Port,
// IdentityFile, ProxyJump, HostKeyAlias, UserKnownHostsFile and Include. A Match
// block is skipped with a warning, because its conditions are known only when ssh
// runs. Comments such as "# fairlead: slots 8" give settings that ssh does not have.
//
// A file with a mistake is refused as a whole. All mistakes are reported at once
// (*[Error]), each with its line and column.
//
// The readers are our own. An OpenSSH config library (kevinburke/ssh_config was
// considered) stops at the first mistake, does not tell the place of the value that
// wins, and fails on most Match lines. Ansible's INI differs from that of other
// programs, and its mistakes need places too. Host keys are looked up with
// skeema/knownhosts, as in hostexec: it handles hashed names, ports and revocations.
package inventory
