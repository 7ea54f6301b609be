// Package inventory reads the hosts that somebody has already, from a file of
// ours, an Ansible inventory (INI or YAML) or an OpenSSH client config, and
// writes such files. It dials nobody and changes nothing.
//
//	hosts:                       # our own YAML
//	  web-1:
//	    address: web-1.example   # a name or an IP address
//	    user: dev
//	    port: 2222               # 22 if nothing is said
//	    labels: {gpu: no}
//	    slots: 8
//	    jump: bastion            # a host of this file or of the zone
//	    identity: /etc/fairlead/id_ed25519      # a path on the workers
//	    root: /srv/fairlead      # a path on the host
//	    host_keys: [ssh-ed25519 AAAA…]          # or SHA256:…
//	    known_hosts: /etc/fairlead/known_hosts  # in place of host_keys; a path on the workers
//
// Of an Ansible inventory count: groups, their children, ranges of names, and
// the variables ansible_host, ansible_port, ansible_user,
// ansible_ssh_private_key_file, ansible_ssh_common_args (ProxyJump, -J),
// ansible_connection, and ours: fairlead_labels, fairlead_slots, fairlead_root,
// fairlead_jump, fairlead_host_keys, fairlead_known_hosts. A variable of the
// host wins over one of its group, that over one of the group's parent, that
// over one of all. A host has the label group.NAME=yes for each group that it is
// in, also by way of children; all and ungrouped give none. group_vars,
// host_vars, templates and vaults are not read.
//
// Of an OpenSSH config every concrete name behind Host is a host; patterns lend
// their settings, and the first value wins. HostName, User, Port, IdentityFile,
// ProxyJump, HostKeyAlias, UserKnownHostsFile and Include count. A block behind
// Match is left out with a warning: what it asks is known only when ssh runs.
// Comments such as "# fairlead: slots 8" say what ssh has no word for.
//
// Nothing of a file counts that has a mistake. All of them are told at once
// (*[Error]), each with its line and column.
//
// These readers are our own: an OpenSSH config library (kevinburke/ssh_config
// was looked at) stops at the first mistake, does not say where the value that
// wins stands, and fails at most Match lines; the INI of Ansible is not that of
// other programs, and its mistakes are to be told with their places, too. Host keys are found by
// skeema/knownhosts, which hostexec uses too: hashed names, ports, revocations.
package inventory
