/*
 * A real Neap under random requests, SQL load and faults, checked continuously:
 *
 *   node test/chaos/main.ts [--seed N] [--minutes M] [--without REGEXP]
 *
 * Exits with 1 at the first violation and prints the events that led to it. The seed determines the choices, but not
 * the exact instruction that a fault hits.
 */
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { chaos } from './chaos.ts'
import { percentile } from '../../bench/samples.ts'
import { HOSTILE_TENANT } from './hostile.ts'
import { INVARIANTS, type Invariant } from './checks.ts'

const { values } = parseArgs({
  options: { seed: { type: 'string' }, minutes: { type: 'string' }, without: { type: 'string' } },
})
// make passes unset variables as empty strings.
const seed = Number(given(values.seed) ?? Math.floor(Math.random() * 2 ** 31))
const minutes = Number(given(values.minutes) ?? 5)
const without = regexp(given(values.without) ?? '^$')
if (!without || !Number.isInteger(seed) || !(minutes > 0)) {
  console.error('chaos: SEED is a whole number, MINUTES more than 0, and WITHOUT a regular expression')
  process.exit(1)
}

const say = (line: string) => console.error(`${new Date().toISOString().slice(11, 19)}  ${line}`)
console.log(`seed ${seed}, ${minutes} minutes`)
const { faults, impossible, checks, history, latencies } = await chaos({ seed, minutes, say, without })
console.log(table('fault', 'times', [...faults]))
console.log(
  table(
    'check',
    'looks',
    (Object.keys(INVARIANTS) as Invariant[]).map((name) => [INVARIANTS[name], checks.counts[name]]),
  ),
)
console.log(waits())
if (impossible.length > 0) console.log(`left out, or not possible here: ${impossible.join(', ')}\n`)
const [first] = checks.violations
if (first) {
  console.log(`${first.history.join('\n')}\n`)
  console.log(`${checks.violations.length} violations, the first of: ${INVARIANTS[first.invariant]}\n${first.what}`)
  const file = join(tmpdir(), `neap-chaos-${seed}.log`)
  writeFileSync(file, history.last().join('\n'))
  console.log(`all that happened: ${file}`)
  console.log(`again: make chaos SEED=${seed} MINUTES=${minutes}`)
} else console.log(`0 violations (seed ${seed})`)
process.exit(first ? 1 : 0)

/** The waits of clients without a disruption, and while only the hostile tenant was active. */
function waits(): string {
  const rows = (['transaction', 'wake'] as const).map((waited) => {
    const [quiet, hostile] = [latencies.during(waited), latencies.during(waited, HOSTILE_TENANT)]
    const [before, beside] = [percentile(quiet, 0.95), percentile(hostile, 0.95)]
    const counted = (ms: number, { length }: number[]) => (length > 0 ? `${ms.toFixed(0)} ms (of ${length})` : 'none')
    const ratio = quiet.length > 0 && hostile.length > 0 ? `, ${(beside / before).toFixed(2)}×` : ''
    const compared = `beside ${HOSTILE_TENANT} ${counted(beside, hostile)}${ratio}`
    return `  ${waited}: undisturbed ${counted(before, quiet)}, ${compared}`
  })
  return ['p95 of what clients waited for', ...rows, ''].join('\n')
}

function table(what: string, count: string, rows: readonly (readonly [string, number])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length))
  const line = (name: string, value: string | number) => `${name.padEnd(width)}  ${String(value).padStart(7)}`
  return [line(what, count), ...rows.map(([name, value]) => line(name, value)), ''].join('\n')
}

function given(text: string | undefined): string | undefined {
  return text === '' ? undefined : text
}

function regexp(text: string): RegExp | undefined {
  try {
    return new RegExp(text)
  } catch {
    return undefined
  }
}
