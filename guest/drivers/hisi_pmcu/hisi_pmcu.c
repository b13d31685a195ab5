// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sample driver for the HiSilicon PMCU of QEMU's virt board
 *
 * A PMCU (Performance Monitor Control Unit) samples the PMU counters of all
 * CPUs of a die and writes one record per sample to memory. docs/specs/
 * hisi-pmcu.rst describes registers and records.
 *
 * Each PMCU is a perf PMU, hisi_pmcu_scclN for die N. A perf event of it is a
 * *recording*: config and config1 give the number of samples, their length and
 * the exception levels where cycles count; the sysfs file event_list has the
 * events of the CPUs that are counted. The records arrive in the AUX buffer of
 * the perf event. The count of the perf event is the number of samples recorded.
 *
 * A *sample* goes through the whole event list. CPUs count as many events at a
 * time as they have counters, so a sample has one record for each such group. A
 * *run* is what the PMCU does after one trigger: at most 255 samples. A recording
 * of more takes several runs: the handler of the DONE interrupt triggers the next.
 *
 * The PMCU needs contiguous memory, and the pages of an AUX buffer are scattered.
 * So the PMCU writes to a buffer of the driver, and the driver copies the records
 * to the AUX buffer at the end of a run.
 *
 * No lock protects the state of a run: start, stop, the interrupt handler and
 * pmcu_shut_down() all run on the CPU of the event, with interrupts disabled.
 *
 * In compatibility mode (module parameter comp=1), the PMCU leaves the cycle
 * counter and counters 0 to 2 of the CPUs to virtual machines.
 *
 * Needs Linux 6.12 or later. Not supported: AUX snapshots, CPUs with MPIDR_EL1.MT set.
 *
 * Copyright (c) qemu-pmu developers
 */

#include <linux/bitfield.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/iopoll.h>
#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/platform_device.h>
#include <linux/property.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include <asm/cputype.h>
#include <asm/sysreg.h>
#include <asm/virt.h>

#define PMCU_FSM_STATUS		0x000
#define   FSM_STATUS_STATE	GENMASK(3, 0)	/* 0: no run */
#define   FSM_STATUS_ERROR	GENMASK(15, 8)
#define   FSM_STATUS_STORED	GENMASK(31, 16)
#define PMCU_FSM_CFG		0x004
#define   FSM_CFG_EV_LEN	GENMASK(7, 0)
#define   FSM_CFG_NR_LOOP	GENMASK(15, 8)
#define   FSM_CFG_NR_PMU	GENMASK(19, 16)
/* High half of an address; the low half follows. */
#define PMCU_EVENT_BASE		0x008
#define PMCU_KILL_BASE		0x010
#define PMCU_STORE_BASE		0x018
#define PMCU_WAIT_CNT		0x020
#define PMCU_FSM_CTRL		0x038
#define   FSM_CTRL_TRIGGER	BIT(0)
#define PMCU_FSM_BRK		0x03c
#define   FSM_BRK_BRK		BIT(0)
#define PMCU_COMP		0x044
#define PMCU_INT_EN		0x100
#define PMCU_INT_MSK		0x104
#define PMCU_INT_STAT		0x108
#define PMCU_INT_CLR		0x10c
#define   INT_DONE		BIT(0)
#define   INT_BRK		BIT(1)
#define   INT_ALL		(INT_DONE | INT_BRK)
#define PMCU_PMCR		0x200
#define   PMCR_E		BIT(0)
#define   PMCR_LC		BIT(6)
#define   PMCR_LP		BIT(7)
#define PMCU_PMCCFILTR		0x204
#define   PMCCFILTR_FILTER	GENMASK(31, 24)

#define PMCU_TICKS_PER_US	50	/* of WAIT_CNT */
#define PMCU_MAX_COUNTERS	8
#define PMCU_COMP_FIRST		3	/* counter of the CPUs in compatibility mode */
#define PMCU_MAX_EVENTS		240
#define PMCU_MAX_LOOPS		255
#define PMCU_SLOTS_PER_CLUSTER	8
#define PMCU_NULL_EVENT		0xc000	/* never counts: fills up the list */
#define PMCU_DEFAULT_EVENT	0x11	/* CPU cycles */
/* The bits that PMEVTYPER<n>_EL0 has: filter and number of the event */
#define PMCU_EVENT_MASK		(GENMASK(31, 25) | GENMASK(15, 0))

/* The buffer for the hardware: the event list, then records */
#define PMCU_LIST_SIZE		SZ_4K
#define PMCU_RECORDS_SIZE	SZ_256K
#define PMCU_BUFFER_SIZE	(PMCU_LIST_SIZE + PMCU_RECORDS_SIZE)

/* How long to wait for the answer to a break, which QEMU gives at once */
#define PMCU_BREAK_TIMEOUT_US	1000

/* attr.config */
#define CONFIG_NR_SAMPLE	GENMASK_ULL(31, 0)
#define CONFIG_PERIOD_US	GENMASK_ULL(63, 32)
/* attr.config1 */
#define CONFIG1_PMCCFILTR	GENMASK_ULL(7, 0)
#define CONFIG1_NR_LOOP		GENMASK_ULL(15, 8)

static bool comp;
module_param(comp, bool, 0444);
MODULE_PARM_DESC(comp, "Use compatibility mode: event counters from 3 on, and no cycle counter");

static unsigned int late_clear_us;
module_param(late_clear_us, uint, 0644);
MODULE_PARM_DESC(late_clear_us, "For tests: microseconds that the interrupt handler "
		 "waits between the next trigger and INT_CLR");

/* The event list. Opening a perf event gives it a copy of its own. */
struct pmcu_list {
	u32 nr;				/* number of events, fillers included */
	u32 nr_pmu;			/* number of events of a record */
	u32 event[PMCU_MAX_EVENTS];
};

/* The AUX buffer of an event */
struct pmcu_aux {
	u32 nr_pages;
	void *page[];
};

struct pmcu {
	struct pmu pmu;
	struct device *dev;
	void __iomem *base;
	int irq;
	u32 scl_id;
	u32 nr_cluster;
	u32 nr_counter;			/* event counters that all CPUs have */

	struct hlist_node node;
	cpumask_t cpus;			/* online CPUs of the die */
	int cpu;			/* CPU of perf events and interrupt, or -1 */

	void *buffer;
	dma_addr_t buffer_dma;

	struct mutex lock;		/* protects list */
	struct pmcu_list list;		/* without fillers; nr_pmu is not used */

	bool shut_down;			/* no run starts from now on */
	struct perf_event *event;	/* of the run; NULL: no run is under way */
	struct perf_output_handle handle;
	u32 samples_left;		/* of the recording; includes this run's */
	u32 loops;			/* samples of this run */
};

#define to_pmcu(p) container_of(p, struct pmcu, pmu)

static enum cpuhp_state pmcu_cpuhp_state;

static void pmcu_write(struct pmcu *pmcu, u32 offset, u32 value)
{
	writel(value, pmcu->base + offset);
}

static void pmcu_write_address(struct pmcu *pmcu, u32 offset, dma_addr_t value)
{
	pmcu_write(pmcu, offset, upper_32_bits(value));
	pmcu_write(pmcu, offset + 4, lower_32_bits(value));
}

/* Two context IDs of 4 bytes for each slot, the events, and maybe the cycle counter */
static size_t pmcu_record_size(struct pmcu *pmcu, const struct pmcu_list *list)
{
	return (list->nr_pmu + (comp ? 1 : 2)) * sizeof(u64) * PMCU_SLOTS_PER_CLUSTER * pmcu->nr_cluster;
}

static size_t pmcu_sample_size(struct pmcu *pmcu, const struct pmcu_list *list)
{
	return list->nr / list->nr_pmu * pmcu_record_size(pmcu, list);
}

static void pmcu_break(struct pmcu *pmcu)
{
	u32 stat;

	pmcu_write(pmcu, PMCU_FSM_BRK, FSM_BRK_BRK);
	/*
	 * Poll INT_STAT instead of waiting for the interrupt: its handler cannot
	 * run before this CPU enables interrupts again.
	 */
	if (readl_poll_timeout_atomic(pmcu->base + PMCU_INT_STAT, stat, stat & INT_BRK, 1,
				      PMCU_BREAK_TIMEOUT_US))
		dev_err(pmcu->dev, "no answer to a break, FSM_STATUS 0x%08x\n",
			readl(pmcu->base + PMCU_FSM_STATUS));
	pmcu_write(pmcu, PMCU_INT_CLR, INT_ALL);
}

/* Copy the first @size bytes of records to the AUX buffer at the handle's head. */
static void pmcu_copy_records(struct pmcu *pmcu, size_t size)
{
	struct pmcu_aux *aux = perf_get_aux(&pmcu->handle);
	size_t at = pmcu->handle.head % ((size_t)aux->nr_pages << PAGE_SHIFT);
	const void *from = pmcu->buffer + PMCU_LIST_SIZE;

	while (size) {
		size_t offset = offset_in_page(at), len = min(size, PAGE_SIZE - offset);

		memcpy(aux->page[at >> PAGE_SHIFT] + offset, from, len);
		from += len;
		size -= len;
		at += len;
		if (at >> PAGE_SHIFT == aux->nr_pages)
			at = 0;
	}
}

/* End the run: hand its first @samples samples to the reader. */
static void pmcu_account(struct pmcu *pmcu, u32 samples, u64 flags)
{
	struct perf_event *event = pmcu->event;
	size_t size = samples * pmcu_sample_size(pmcu, event->pmu_private);

	pmcu_copy_records(pmcu, size);
	if (flags)
		perf_aux_output_flag(&pmcu->handle, flags);
	local64_add(samples, &event->count);
	pmcu->samples_left -= samples;
	pmcu->event = NULL;
	perf_aux_output_end(&pmcu->handle, size);
}

/*
 * End a run that was broken off: hand over its complete samples. STORED, the
 * number of records, is a decision of QEMU's; hardware may not have it.
 */
static void pmcu_account_broken(struct pmcu *pmcu, u64 flags)
{
	const struct pmcu_list *list = pmcu->event->pmu_private;
	u32 stored = FIELD_GET(FSM_STATUS_STORED, readl(pmcu->base + PMCU_FSM_STATUS));

	pmcu_account(pmcu, min(stored / (list->nr / list->nr_pmu), pmcu->loops), flags);
}

/* Start a run with as many of the remaining samples as fit. */
static void pmcu_run(struct pmcu *pmcu, struct perf_event *event)
{
	const struct pmcu_list *list = event->pmu_private;
	size_t sample = pmcu_sample_size(pmcu, list);
	dma_addr_t records = pmcu->buffer_dma + PMCU_LIST_SIZE;
	u32 max_loops = FIELD_GET(CONFIG1_NR_LOOP, event->attr.config1) ?: PMCU_MAX_LOOPS;
	__le32 *events = pmcu->buffer;
	struct pmcu_aux *aux;
	size_t room;
	u32 status, i;

	if (pmcu->shut_down)
		return;
	/* Fails if the reader has no AUX buffer, or a full one. */
	if (!perf_aux_output_begin(&pmcu->handle, event))
		return;
	/* At most half of the AUX buffer, so that a run and the reader can take turns. */
	aux = perf_get_aux(&pmcu->handle);
	room = min3((size_t)PMCU_RECORDS_SIZE, pmcu->handle.size, aux->nr_pages * PAGE_SIZE / 2);
	pmcu->loops = min3(pmcu->samples_left, max_loops, (u32)(room / sample));
	if (!pmcu->loops)		/* no room for a whole sample */
		goto truncated;

	for (i = 0; i < list->nr; i++)
		events[i] = cpu_to_le32(list->event[i]);
	/* With each run, since hibernation resets the device */
	pmcu_write(pmcu, PMCU_COMP, comp);
	pmcu_write(pmcu, PMCU_PMCR, PMCR_LP | PMCR_LC | PMCR_E);
	pmcu_write(pmcu, PMCU_INT_EN, INT_ALL);
	pmcu_write(pmcu, PMCU_INT_MSK, 0);
	pmcu_write(pmcu, PMCU_FSM_CFG,
		   FIELD_PREP(FSM_CFG_EV_LEN, list->nr) |
		   FIELD_PREP(FSM_CFG_NR_LOOP, pmcu->loops) |
		   FIELD_PREP(FSM_CFG_NR_PMU, list->nr_pmu));
	pmcu_write(pmcu, PMCU_WAIT_CNT,
		   FIELD_GET(CONFIG_PERIOD_US, event->attr.config) * PMCU_TICKS_PER_US);
	pmcu_write(pmcu, PMCU_PMCCFILTR,
		   FIELD_PREP(PMCCFILTR_FILTER,
			      FIELD_GET(CONFIG1_PMCCFILTR, event->attr.config1)));
	pmcu_write_address(pmcu, PMCU_EVENT_BASE, pmcu->buffer_dma);
	pmcu_write_address(pmcu, PMCU_STORE_BASE, records);
	pmcu_write_address(pmcu, PMCU_KILL_BASE, records + pmcu->loops * sample);
	pmcu_write(pmcu, PMCU_FSM_CTRL, FSM_CTRL_TRIGGER);

	/*
	 * The PMCU does not raise an interrupt for a trigger that it refuses. A run
	 * that fails before this read also leaves an error here, but sets BRK: its
	 * interrupt follows.
	 */
	status = readl(pmcu->base + PMCU_FSM_STATUS);
	if (FIELD_GET(FSM_STATUS_ERROR, status) &&
	    !(readl(pmcu->base + PMCU_INT_STAT) & INT_BRK)) {
		dev_err(pmcu->dev, "trigger refused, FSM_STATUS 0x%08x\n", status);
		goto truncated;
	}
	pmcu->event = event;
	return;

truncated:
	/* This flag tells the reader, and makes perf disable the event. */
	perf_aux_output_flag(&pmcu->handle, PERF_AUX_FLAG_TRUNCATED);
	perf_aux_output_end(&pmcu->handle, 0);
}

static irqreturn_t pmcu_interrupt(int irq, void *data)
{
	struct pmcu *pmcu = data;
	struct perf_event *event = pmcu->event;
	u32 stat = readl(pmcu->base + PMCU_INT_STAT);
	u32 status = readl(pmcu->base + PMCU_FSM_STATUS);

	if (!(stat & INT_ALL))
		return IRQ_NONE;

	if (!event) {
		dev_warn_ratelimited(pmcu->dev, "interrupt without a run, INT_STAT 0x%x\n", stat);
	} else if (stat & INT_BRK) {
		/* pmcu_stop() clears BRK of its own breaks, so this is an error. */
		dev_err(pmcu->dev, "run broken off, FSM_STATUS 0x%08x\n", status);
		pmcu_account_broken(pmcu, PERF_AUX_FLAG_TRUNCATED);
	} else if (FIELD_GET(FSM_STATUS_STATE, status)) {
		/* Its records are not there yet. STATE is a decision of QEMU's, too. */
		dev_warn_ratelimited(pmcu->dev, "DONE before the end of a run, FSM_STATUS 0x%08x\n",
				     status);
	} else {
		pmcu_account(pmcu, pmcu->loops, 0);
		if (pmcu->samples_left)
			pmcu_run(pmcu, event);
		if (late_clear_us)
			udelay(late_clear_us);
	}
	/*
	 * The trigger comes first, so that runs follow each other closely. If
	 * the new run has ended before this write, the PMCU has held its DONE
	 * back, and sets DONE again now: the interrupt stays high.
	 */
	pmcu_write(pmcu, PMCU_INT_CLR, stat);
	return IRQ_HANDLED;
}

/* -- perf ----------------------------------------------------------------- */

static void pmcu_start(struct perf_event *event, int flags)
{
	struct pmcu *pmcu = to_pmcu(event->pmu);
	u32 nr_sample = FIELD_GET(CONFIG_NR_SAMPLE, event->attr.config);

	/*
	 * perf also stops and starts an event to let others have its CPU: go on
	 * with what is left. PERF_EVENT_IOC_RESET clears the count.
	 */
	pmcu->samples_left = nr_sample - min_t(u64, nr_sample, local64_read(&event->count));
	if (pmcu->samples_left)
		pmcu_run(pmcu, event);
}

static void pmcu_stop(struct perf_event *event, int flags)
{
	struct pmcu *pmcu = to_pmcu(event->pmu);

	if (pmcu->event) {
		pmcu_break(pmcu);
		pmcu_account_broken(pmcu, PERF_AUX_FLAG_PARTIAL);
	}
}

static int pmcu_add(struct perf_event *event, int flags)
{
	/* An event that was opened on another CPU while this one moved */
	if (to_pmcu(event->pmu)->event)
		return -EBUSY;
	/*
	 * Return 0 even if no run could be started: after an error, perf would
	 * try again at each tick.
	 */
	if (flags & PERF_EF_START)
		pmcu_start(event, PERF_EF_RELOAD);
	return 0;
}

static void pmcu_del(struct perf_event *event, int flags)
{
	pmcu_stop(event, PERF_EF_UPDATE);
}

static void pmcu_read(struct perf_event *event)
{
	/* pmcu_account() keeps event->count up to date. */
}

static void *pmcu_setup_aux(struct perf_event *event, void **pages, int nr_pages, bool snapshot)
{
	struct pmcu_aux *aux;

	if (snapshot)
		return NULL;
	aux = kvzalloc(struct_size(aux, page, nr_pages), GFP_KERNEL);
	if (aux) {
		aux->nr_pages = nr_pages;
		memcpy(aux->page, pages, nr_pages * sizeof(*pages));
	}
	return aux;
}

static void pmcu_free_aux(void *aux)
{
	kvfree(aux);
}

static void pmcu_event_destroy(struct perf_event *event)
{
	kfree(event->pmu_private);
}

static int pmcu_event_init(struct perf_event *event)
{
	struct pmcu *pmcu = to_pmcu(event->pmu);
	u64 period_us = FIELD_GET(CONFIG_PERIOD_US, event->attr.config);
	int cpu = READ_ONCE(pmcu->cpu);		/* changes when CPUs go */
	struct pmcu_list *list;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	/* A record covers all CPUs of the die, so it cannot belong to a task. */
	if (event->cpu < 0 || event->attach_state & PERF_ATTACH_TASK)
		return -EOPNOTSUPP;
	/*
	 * To adjust the period to a frequency, perf would stop and start the event
	 * at each tick, and so break off its runs.
	 */
	if (event->attr.freq)
		return -EINVAL;
	if (cpu < 0)
		return -ENODEV;
	if (!FIELD_GET(CONFIG_NR_SAMPLE, event->attr.config) || !period_us ||
	    period_us > U32_MAX / PMCU_TICKS_PER_US)
		return -EINVAL;

	mutex_lock(&pmcu->lock);
	list = kmemdup(&pmcu->list, sizeof(pmcu->list), GFP_KERNEL);
	mutex_unlock(&pmcu->lock);
	if (!list)
		return -ENOMEM;
	list->nr_pmu = min(list->nr, pmcu->nr_counter);
	while (list->nr < PMCU_MAX_EVENTS && list->nr % list->nr_pmu)
		list->event[list->nr++] = PMCU_NULL_EVENT;
	if (list->nr % list->nr_pmu || pmcu_sample_size(pmcu, list) > PMCU_RECORDS_SIZE) {
		kfree(list);
		return -E2BIG;
	}
	event->pmu_private = list;
	event->destroy = pmcu_event_destroy;
	event->cpu = cpu;
	return 0;
}

/* -- sysfs ---------------------------------------------------------------- */

PMU_FORMAT_ATTR(nr_sample, "config:0-31");
PMU_FORMAT_ATTR(period_us, "config:32-63");
PMU_FORMAT_ATTR(pmccfiltr, "config1:0-7");
PMU_FORMAT_ATTR(nr_loop, "config1:8-15");

static struct attribute *pmcu_format_attrs[] = {
	&format_attr_nr_sample.attr,
	&format_attr_period_us.attr,
	&format_attr_pmccfiltr.attr,
	&format_attr_nr_loop.attr,
	NULL
};

static const struct attribute_group pmcu_format_group = {
	.name = "format",
	.attrs = pmcu_format_attrs,
};

/* The layout of records follows from these numbers and the event list. */
static ssize_t nr_cluster_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", to_pmcu(dev_get_drvdata(dev))->nr_cluster);
}
static DEVICE_ATTR_RO(nr_cluster);

static ssize_t nr_counter_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", to_pmcu(dev_get_drvdata(dev))->nr_counter);
}
static DEVICE_ATTR_RO(nr_counter);

static ssize_t comp_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", comp);
}
static DEVICE_ATTR_RO(comp);

static struct attribute *pmcu_caps_attrs[] = {
	&dev_attr_comp.attr,
	&dev_attr_nr_cluster.attr,
	&dev_attr_nr_counter.attr,
	NULL
};

static const struct attribute_group pmcu_caps_group = {
	.name = "caps",
	.attrs = pmcu_caps_attrs,
};

static ssize_t cpumask_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	int cpu = READ_ONCE(to_pmcu(dev_get_drvdata(dev))->cpu);

	return cpu < 0 ? sysfs_emit(buf, "\n") : sysfs_emit(buf, "%d\n", cpu);
}
static DEVICE_ATTR_RO(cpumask);

static ssize_t event_list_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct pmcu *pmcu = to_pmcu(dev_get_drvdata(dev));
	int len = 0;
	u32 i;

	mutex_lock(&pmcu->lock);
	for (i = 0; i < pmcu->list.nr; i++)
		len += sysfs_emit_at(buf, len, "%s0x%x", i ? "," : "", pmcu->list.event[i]);
	mutex_unlock(&pmcu->lock);
	return len + sysfs_emit_at(buf, len, "\n");
}

/* Numbers with commas between them. Perf events that are open keep their list. */
static ssize_t event_list_store(struct device *dev, struct device_attribute *attr,
				const char *buf, size_t count)
{
	struct pmcu *pmcu = to_pmcu(dev_get_drvdata(dev));
	struct pmcu_list *list;
	char *text, *rest, *word;
	int err = 0;

	list = kzalloc(sizeof(*list), GFP_KERNEL);
	text = kstrndup(buf, count, GFP_KERNEL);
	if (!list || !text) {
		err = -ENOMEM;
		goto out;
	}
	rest = strim(text);
	while (!err && (word = strsep(&rest, ","))) {
		u32 event;

		err = list->nr == PMCU_MAX_EVENTS ? -E2BIG : kstrtou32(word, 0, &event);
		if (!err && event & ~PMCU_EVENT_MASK)
			err = -ERANGE;
		if (!err)
			list->event[list->nr++] = event;
	}
	if (!err) {
		mutex_lock(&pmcu->lock);
		pmcu->list = *list;
		mutex_unlock(&pmcu->lock);
	}
out:
	kfree(text);
	kfree(list);
	return err ?: count;
}
static DEVICE_ATTR_RW(event_list);

static struct attribute *pmcu_attrs[] = {
	&dev_attr_cpumask.attr,
	&dev_attr_event_list.attr,
	NULL
};

static const struct attribute_group pmcu_group = {
	.attrs = pmcu_attrs,
};

static const struct attribute_group *pmcu_groups[] = {
	&pmcu_format_group,
	&pmcu_caps_group,
	&pmcu_group,
	NULL
};

/* -- CPUs ----------------------------------------------------------------- */

static void pmcu_move_to(struct pmcu *pmcu, int cpu)
{
	WRITE_ONCE(pmcu->cpu, cpu);
	if (cpu >= 0)
		WARN_ON(irq_set_affinity(pmcu->irq, cpumask_of(cpu)));
}

/* Runs on each CPU that comes online, and at the probe on those that are. */
static int pmcu_cpu_online(unsigned int cpu, struct hlist_node *node)
{
	struct pmcu *pmcu = hlist_entry(node, struct pmcu, node);
	u64 mpidr = read_cpuid_mpidr();
	u32 n;

	if (MPIDR_AFFINITY_LEVEL(mpidr, 2) != pmcu->scl_id)
		return 0;
	/*
	 * A counter that a CPU lacks would read 0. PMCR_EL0.N is the number of
	 * counters that a hypervisor leaves to this kernel.
	 */
	n = FIELD_GET(GENMASK(15, 11), read_sysreg(pmcr_el0));
	n = clamp(n, 1U, PMCU_MAX_COUNTERS);
	if (comp) {
		n = n > PMCU_COMP_FIRST ? n - PMCU_COMP_FIRST : 1;
		/* The enable bit of counters from MDCR_EL2.HPMN on */
		if (is_kernel_in_hyp_mode())
			write_sysreg(read_sysreg(mdcr_el2) | BIT(7), mdcr_el2);
	}
	pmcu->nr_counter = min_not_zero(pmcu->nr_counter, n);
	cpumask_set_cpu(cpu, &pmcu->cpus);
	if (pmcu->cpu < 0)
		pmcu_move_to(pmcu, cpu);
	return 0;
}

static int pmcu_cpu_offline(unsigned int cpu, struct hlist_node *node)
{
	struct pmcu *pmcu = hlist_entry(node, struct pmcu, node);
	unsigned int target;

	if (!cpumask_test_and_clear_cpu(cpu, &pmcu->cpus) || cpu != pmcu->cpu)
		return 0;
	target = cpumask_first(&pmcu->cpus);
	if (target >= nr_cpu_ids) {
		/* perf ends the recording when the CPU goes. */
		WRITE_ONCE(pmcu->cpu, -1);
		return 0;
	}
	/*
	 * A recording goes on on the target CPU. Its interrupt stays pending until
	 * that CPU can take it.
	 */
	disable_irq(pmcu->irq);
	perf_pmu_migrate_context(&pmcu->pmu, cpu, target);
	pmcu_move_to(pmcu, target);
	enable_irq(pmcu->irq);
	return 0;
}

/* -- Device --------------------------------------------------------------- */

static void pmcu_quiesce(void *data)
{
	struct pmcu *pmcu = data;

	pmcu_write(pmcu, PMCU_INT_MSK, INT_ALL);
	pmcu_break(pmcu);
}

static int pmcu_probe(struct platform_device *pdev)
{
	struct device *dev = &pdev->dev;
	struct pmcu *pmcu;
	const char *name;
	int err;

	if (!cpuid_feature_extract_unsigned_field(read_cpuid(ID_AA64DFR0_EL1),
						  ID_AA64DFR0_EL1_PMUVer_SHIFT))
		return dev_err_probe(dev, -ENODEV, "the CPUs have no PMU\n");
	pmcu = devm_kzalloc(dev, sizeof(*pmcu), GFP_KERNEL);
	if (!pmcu)
		return -ENOMEM;
	pmcu->dev = dev;
	pmcu->cpu = -1;
	pmcu->list.event[pmcu->list.nr++] = PMCU_DEFAULT_EVENT;
	mutex_init(&pmcu->lock);
	platform_set_drvdata(pdev, pmcu);

	if (device_property_read_u32(dev, "hisilicon,scl-id", &pmcu->scl_id) ||
	    device_property_read_u32(dev, "hisilicon,nr-cluster", &pmcu->nr_cluster) ||
	    !pmcu->nr_cluster)
		return dev_err_probe(dev, -EINVAL, "properties of the die are missing\n");
	pmcu->base = devm_platform_ioremap_resource(pdev, 0);
	if (IS_ERR(pmcu->base))
		return PTR_ERR(pmcu->base);
	err = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(64));
	if (err)
		return err;
	pmcu->buffer = dmam_alloc_coherent(dev, PMCU_BUFFER_SIZE, &pmcu->buffer_dma, GFP_KERNEL);
	if (!pmcu->buffer)
		return -ENOMEM;

	/*
	 * End a run that an earlier kernel may have left. The action does the same
	 * when the driver goes, after the interrupt and before the buffer is freed.
	 */
	pmcu_quiesce(pmcu);
	err = devm_add_action(dev, pmcu_quiesce, pmcu);
	if (err)
		return err;

	name = devm_kasprintf(dev, GFP_KERNEL, "hisi_pmcu_sccl%u", pmcu->scl_id);
	if (!name)
		return -ENOMEM;
	pmcu->irq = platform_get_irq(pdev, 0);
	if (pmcu->irq < 0)
		return pmcu->irq;
	err = devm_request_irq(dev, pmcu->irq, pmcu_interrupt, IRQF_NOBALANCING | IRQF_NO_THREAD,
			       name, pmcu);
	if (err)
		return err;

	pmcu->pmu = (struct pmu) {
		.module		= THIS_MODULE,
		.parent		= dev,
		.attr_groups	= pmcu_groups,
		.capabilities	= PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_NO_EXCLUDE,
		.task_ctx_nr	= perf_invalid_context,
		.event_init	= pmcu_event_init,
		.add		= pmcu_add,
		.del		= pmcu_del,
		.start		= pmcu_start,
		.stop		= pmcu_stop,
		.read		= pmcu_read,
		.setup_aux	= pmcu_setup_aux,
		.free_aux	= pmcu_free_aux,
	};
	err = cpuhp_state_add_instance(pmcu_cpuhp_state, &pmcu->node);
	if (err)
		return err;
	err = perf_pmu_register(&pmcu->pmu, name, -1);
	if (err)
		cpuhp_state_remove_instance_nocalls(pmcu_cpuhp_state, &pmcu->node);
	return err;
}

/* An open event holds a reference to the module, so no run is under way here. */
static void pmcu_remove(struct platform_device *pdev)
{
	struct pmcu *pmcu = platform_get_drvdata(pdev);

	perf_pmu_unregister(&pmcu->pmu);
	cpuhp_state_remove_instance_nocalls(pmcu_cpuhp_state, &pmcu->node);
}

static void pmcu_shut_down(void *data)
{
	struct pmcu *pmcu = data;

	pmcu->shut_down = true;
	pmcu_quiesce(pmcu);
}

/*
 * A run must not write to the memory of the kernel that comes after this one.
 * With "kexec -e", programs still run here: their events may start after this.
 */
static void pmcu_shutdown(struct platform_device *pdev)
{
	struct pmcu *pmcu = platform_get_drvdata(pdev);

	/* Runs start on the CPU of events, which cannot move now. */
	cpus_read_lock();
	if (pmcu->cpu < 0)
		pmcu_shut_down(pmcu);
	else
		smp_call_function_single(pmcu->cpu, pmcu_shut_down, pmcu, true);
	cpus_read_unlock();
}

static const struct acpi_device_id pmcu_acpi_match[] = {
	{ "HISI0451" },
	{ }
};
MODULE_DEVICE_TABLE(acpi, pmcu_acpi_match);

static const struct of_device_id pmcu_of_match[] = {
	{ .compatible = "hisilicon,pmcu" },
	{ }
};
MODULE_DEVICE_TABLE(of, pmcu_of_match);

static struct platform_driver pmcu_driver = {
	.driver = {
		.name = "hisi_pmcu",
		.acpi_match_table = pmcu_acpi_match,
		.of_match_table = pmcu_of_match,
		/*
		 * An open perf event keeps the module, but nothing keeps the binding:
		 * unbinding through sysfs would free the PMU below the event.
		 */
		.suppress_bind_attrs = true,
	},
	.probe = pmcu_probe,
	.remove = pmcu_remove,
	.shutdown = pmcu_shutdown,
};

static int __init pmcu_init(void)
{
	int err = cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "perf/hisi_pmcu:online",
					  pmcu_cpu_online, pmcu_cpu_offline);

	if (err < 0)
		return err;
	pmcu_cpuhp_state = err;
	err = platform_driver_register(&pmcu_driver);
	if (err)
		cpuhp_remove_multi_state(pmcu_cpuhp_state);
	return err;
}
module_init(pmcu_init);

static void __exit pmcu_exit(void)
{
	platform_driver_unregister(&pmcu_driver);
	cpuhp_remove_multi_state(pmcu_cpuhp_state);
}
module_exit(pmcu_exit);

MODULE_AUTHOR("qemu-pmu developers");
MODULE_DESCRIPTION("Sample driver for the HiSilicon PMCU of QEMU's virt board");
MODULE_LICENSE("GPL");
