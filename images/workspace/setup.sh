#!/bin/sh
# Run as root inside the image, once its packages are there: by the Dockerfile and by
# `emergent image build`.
set -eu

groupadd --gid 1000 user
useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash user

# Whoever works here, works here: the account is chosen per command.
mkdir -p /workspace
chmod 0777 /workspace

# Packages do not start services; nobody would look after them.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 0755 /usr/sbin/policy-rc.d

# The system's Python is the workspace's own: `pip install` needs no virtual environment.
printf '[global]\nbreak-system-packages = true\n' >/etc/pip.conf

# Nothing of the machine the image was made on. A runtime brings its own; one that builds an image
# has mounted these, so that they can be neither removed nor kept.
rm -f /etc/hostname /etc/resolv.conf 2>/dev/null || true
rm -f /etc/machine-id /var/lib/dbus/machine-id /etc/ssh/ssh_host_*
: >/etc/machine-id
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/cache/apt/*.bin
find /var/log -type f -delete
