// Package inventory reads and writes files that describe existing hosts: our own
// YAML, an Ansible inventory (INI or YAML) or an OpenSSH client config. It changes
// nothing.
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
// An Ansible inventory is read by the program ansible-inventory, or it is the JSON that
// `ansible-inventory --list` prints. The package uses groups, their children, and the
// variables ansible_host, ansible_port, ansible_user, ansible_ssh_private_key_file,
// ansible_ssh_common_args (ProxyJump, -J), ansible_connection, and ours:
// fairlead_labels, fairlead_slots, fairlead_root, fairlead_jump, fairlead_host_keys,
// fairlead_known_hosts. A host gets the label group.NAME=yes for each group that it is
// in, directly or through children, except all and ungrouped. Values that
// ansible-inventory leaves as templates or encrypted are refused where they are needed.
//
// In an OpenSSH config every concrete name after Host is a host. The package finds the
// names in the config and in the files that the config includes. It gets the settings of
// each host from `ssh -G`: HostName, User, Port, IdentityFile, ProxyJump, HostKeyAlias and
// UserKnownHostsFile. Comments such as "# fairlead: slots 8" give settings that ssh does
// not have.
//
// A file with a mistake is refused as a whole. All mistakes are reported at once
// (*[Error]). A mistake has its line and column if the program that reads the file reports
// them.
//
// The programs may run commands that the user's files name: inventory plugins and scripts
// of Ansible, and Match exec of OpenSSH. Host keys are looked up with skeema/knownhosts, as
// in hostexec, because it handles hashed names, ports and revocations.
package inventory
