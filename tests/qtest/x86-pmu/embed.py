#!/usr/bin/env python3
#
# Turn a file into a C array
#
# Copyright (c) qemu-pmu developers
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Usage: embed.py INPUT OUTPUT NAME"""

import sys


def main():
    source, target, name = sys.argv[1:]
    with open(source, 'rb') as file:
        data = file.read()
    with open(target, 'w', encoding='ascii') as file:
        file.write(f'static const unsigned char {name}[{len(data)}] = {{\n')
        for i in range(0, len(data), 16):
            line = ', '.join(str(byte) for byte in data[i:i + 16])
            file.write(f'    {line},\n')
        file.write('};\n')


if __name__ == '__main__':
    main()
