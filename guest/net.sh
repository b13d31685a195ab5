#!/bin/sh
# Use QEMU's user network, perhaps with a server for logins: net.sh FOLDER [ssh]
#
# FOLDER of the host is where the kernel's modules are looked for.
# 10.0.2.0/24 is QEMU's: the guest, the way out, and the name server.
#
# SPDX-License-Identifier: GPL-2.0-or-later

ip link show eth0 > /dev/null 2>&1 || {
    echo "--net: this kernel has no network driver (virtio_net); its modules are looked for" \
         "below $1"
    exit 1
}
ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up || exit 1
ip route add default via 10.0.2.2
echo nameserver 10.0.2.3 > /etc/resolv.conf
[ "${2-}" = ssh ] || exit 0
mkdir /etc/dropbear
echo root::0:0:root:/root:/bin/sh > /etc/passwd
/usr/sbin/dropbear -R -s
