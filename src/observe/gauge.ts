import { Gauge, type Registry } from 'prom-client'

/** A value, or one for each value of the label; undefined while it is unknown. */
export type Reading = number | Readonly<Record<string, number>> | undefined

/**
 * Registers a gauge that is read at each scrape. While its value is unknown it has no series, rather than a stale one.
 * @param label its label, if `read` returns a record
 */
export function addGauge(
  registry: Registry,
  { name, help, label }: { readonly name: string; readonly help: string; readonly label?: string },
  read: () => Reading | Promise<Reading>,
): void {
  const gauge = new Gauge({
    name,
    help,
    labelNames: label === undefined ? [] : [label],
    registers: [],
    async collect() {
      const found = await read()
      if (typeof found === 'number') return this.set(found)
      if (label === undefined) return this.remove()
      this.reset()
      for (const [value, count] of Object.entries(found ?? {})) this.set({ [label]: value }, count)
    },
  })
  registry.registerMetric(gauge)
}
