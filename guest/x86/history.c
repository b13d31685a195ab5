/*
 * history: a variable with known values, for a debugger that goes backwards
 *
 * It becomes 1, 4, 13, 40, and 121; other memory changes in between.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdio.h>

static volatile long value;
static volatile long other[8];

static __attribute__((noinline)) void finished(void)
{
    printf("%ld\n", value);
}

int main(void)
{
    for (int turn = 0; turn < 5; turn++) {
        value = 3 * value + 1;
        for (int i = 0; i < 1000; i++) {
            other[i % 8] += i;
        }
    }
    finished();
    return 0;
}
