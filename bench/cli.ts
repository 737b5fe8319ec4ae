/* What commands cost beside a Node that does no work: the help, and the state of an idle machine. */
import { spawnSync } from 'node:child_process'
import { startNeap } from '../test/neap.ts'
import { percentile, report } from './samples.ts'

const [samples = 30] = process.argv.slice(2).map(Number)
const ROOT = new URL('..', import.meta.url).pathname

const neap = await startNeap()
const PROGRAMS: Record<string, readonly string[]> = {
  'node -e 0': [process.execPath, '-e', '0'],
  'neap --help': [`${ROOT}bin/neap`, '--help'],
  'neap branches --help': [`${ROOT}bin/neap`, 'branches', '--help'],
  'neap status': [`${ROOT}bin/neap`, 'status', '--data-dir', neap.ready.data_dir],
}

const rows: Record<string, number[]> = Object.fromEntries(Object.keys(PROGRAMS).map((name) => [name, []]))
try {
  for (let each = -3; each < samples; each++)
    for (const [name, [program = '', ...args]] of Object.entries(PROGRAMS)) {
      const begun = performance.now()
      const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' })
      const ms = performance.now() - begun
      if (status !== 0) throw new Error(`${name}: ${stderr}`)
      if (each >= 0) rows[name]?.push(ms)
    }
} finally {
  await neap.stop()
}

const median = (name: string) => percentile(rows[name] ?? [], 0.5)
report(
  'cli',
  ['milliseconds from the start of a process to its end, one at a time and in turn; its compile cache is warm'],
  rows,
  Object.keys(PROGRAMS)
    .filter((name) => name.startsWith('neap'))
    .flatMap((name) => [
      { what: `${name} / node -e 0, medians`, value: median(name) / median('node -e 0'), most: 3, unit: '×' },
      { what: `${name}, median`, value: median(name), most: 500, unit: ' ms' },
    ]),
)
