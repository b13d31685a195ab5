#!/bin/sh
# Use QEMU's user network, perhaps with a server for logins: net.sh [ssh]
#
# 10.0.2.0/24 is QEMU's: the guest, the way out, and the name server.
#
# SPDX-License-Identifier: GPL-2.0-or-later

ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up || exit 1
ip route add default via 10.0.2.2
echo nameserver 10.0.2.3 > /etc/resolv.conf
[ "${1-}" = ssh ] || exit 0
mkdir /etc/dropbear
echo root::0:0:root:/root:/bin/sh > /etc/passwd
/usr/sbin/dropbear -R -s
