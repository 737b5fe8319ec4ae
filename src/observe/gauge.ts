import { Gauge, type Registry } from 'prom-client'

/** A value, or one for each value of the label; nothing where it is not known just now. */
export type Reading = number | Readonly<Record<string, number>> | undefined

/**
 * Registers a gauge that is read when somebody scrapes. While it is not known it has no series, rather than one with what was.
 * @param label its one label, where `read` answers more than a number
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
