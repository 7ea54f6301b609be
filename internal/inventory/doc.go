// Package inventory reads and writes files that describe existing hosts: our own YAML, an
// Ansible inventory (INI or YAML) or an OpenSSH client config. It changes nothing.
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
// An Ansible inventory is read by the program ansible-inventory, or is the JSON that
// `ansible-inventory --list` prints. The package uses the groups as labels (group.NAME=yes,
// also for parents, not for all and ungrouped), some variables of Ansible, and
// fairlead_labels, fairlead_slots, fairlead_root, fairlead_jump, fairlead_host_keys,
// fairlead_known_hosts.
//
// In an OpenSSH config every concrete name after Host is a host, with the settings that
// `ssh -G` prints. Comments such as "# fairlead: slots 8" give settings that ssh does not
// have.
//
// A file with a mistake is refused as a whole, with all its mistakes (*[Error]).
//
// The programs may run commands that the user's files name: inventory plugins and scripts
// of Ansible, and Match exec of OpenSSH. skeema/knownhosts looks up host keys, as in
// hostexec, because it handles hashed names, ports and revocations.
package inventory
