import { Gauge, type Registry } from 'prom-client'

/** A value of a gauge with several labels. */
export interface LabeledValue {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** A value, or one for each value of the label, or of several labels; undefined while it is unknown. */
export type Reading = number | Readonly<Record<string, number>> | readonly LabeledValue[] | undefined

/**
 * Registers a gauge that is read at each scrape. While its value is unknown it has no series, rather than a stale one.
 * @param label its label, if `read` returns a record, or its labels, if it returns a list
 */
export function addGauge(
  registry: Registry,
  { name, help, label }: { readonly name: string; readonly help: string; readonly label?: string | readonly string[] },
  read: () => Reading | Promise<Reading>,
): void {
  const gauge = new Gauge({
    name,
    help,
    labelNames: label === undefined ? [] : [label].flat(),
    registers: [],
    async collect() {
      const found = await read()
      if (typeof found === 'number') return this.set(found)
      if (label === undefined) return this.remove()
      this.reset()
      if (isList(found)) return found.forEach(({ labels, value }) => this.set(labels, value))
      for (const [value, count] of Object.entries(found ?? {})) this.set({ [String(label)]: value }, count)
    },
  })
  registry.registerMetric(gauge)
}

const isList = (found: Reading): found is readonly LabeledValue[] => Array.isArray(found)
