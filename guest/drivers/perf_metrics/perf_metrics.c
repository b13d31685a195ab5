// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * perf_metrics: read IA32_PERF_METRICS without perf
 *
 * Counts the slots of a loop in the kernel with fixed counter 3, and prints
 * which share of them each category of TopDown has, in 255ths. It is a sample:
 * it takes the counter away from perf while the loop runs.
 */

#include <linux/bits.h>
#include <linux/irqflags.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <asm/msr.h>
#include <asm/msr-index.h>

#ifdef rdmsrq			/* since Linux 6.16 */
#define read_safe rdmsrq_safe
#else
#define read_safe rdmsrl_safe
#define rdmsrq rdmsrl
#define wrmsrq wrmsrl
#endif

#define CAPABLE		BIT_ULL(15)	/* of IA32_PERF_CAPABILITIES */
#define FIXED_CTR3	0x30c
#define CTR3_ALL	(3ULL << 12)	/* of IA32_FIXED_CTR_CTRL: user and kernel */
#define ENABLE		(BIT_ULL(35) | BIT_ULL(48))	/* of IA32_PERF_GLOBAL_CTRL */

static unsigned int turns = 1000000;
module_param(turns, uint, 0444);
MODULE_PARM_DESC(turns, "of the loop, of two instructions each");

static int __init perf_metrics_init(void)
{
	unsigned long flags, n = max(turns, 1U);
	u64 capabilities, control, global, slots, metrics;

	if (read_safe(MSR_IA32_PERF_CAPABILITIES, &capabilities) || !(capabilities & CAPABLE))
		return -ENODEV;

	local_irq_save(flags);
	rdmsrq(MSR_CORE_PERF_FIXED_CTR_CTRL, control);
	rdmsrq(MSR_CORE_PERF_GLOBAL_CTRL, global);
	wrmsrq(MSR_CORE_PERF_GLOBAL_CTRL, 0);
	/* In this order: a write of the counter restarts the metrics. */
	wrmsrq(FIXED_CTR3, 0);
	wrmsrq(MSR_PERF_METRICS, 0);
	wrmsrq(MSR_CORE_PERF_FIXED_CTR_CTRL, control | CTR3_ALL);
	wrmsrq(MSR_CORE_PERF_GLOBAL_CTRL, ENABLE);
	asm volatile("1: dec %0\n jnz 1b" : "+r"(n));
	wrmsrq(MSR_CORE_PERF_GLOBAL_CTRL, 0);
	rdmsrq(FIXED_CTR3, slots);
	rdmsrq(MSR_PERF_METRICS, metrics);
	wrmsrq(MSR_CORE_PERF_FIXED_CTR_CTRL, control);
	wrmsrq(MSR_CORE_PERF_GLOBAL_CTRL, global);
	local_irq_restore(flags);

	pr_info("perf_metrics: slots %llu retiring %llu bad speculation %llu frontend %llu backend %llu\n",
		slots, metrics & 0xff, metrics >> 8 & 0xff, metrics >> 16 & 0xff,
		metrics >> 24 & 0xff);
	return 0;
}

static void __exit perf_metrics_exit(void)
{
}

module_init(perf_metrics_init);
module_exit(perf_metrics_exit);
MODULE_DESCRIPTION("IA32_PERF_METRICS of a loop");
MODULE_LICENSE("GPL");
