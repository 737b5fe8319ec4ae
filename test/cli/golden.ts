import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { envOf, type Neap, neapRun, type Ran } from '../neap.ts'

/** A transcript of the command line, as stored in test/cli/golden. */
export interface Transcript {
  /** Runs `neap` with these words or arguments, records the output, and returns it unchanged. */
  readonly neap: (words: string | readonly string[], env?: NodeJS.ProcessEnv) => Promise<Ran>
  /** Compares the transcript with the golden file; UPDATE_GOLDEN=1 writes the file instead. */
  readonly compare: () => void
}

/** Starts a transcript. Placeholders replace values that differ between runs; equal values get the same placeholder. */
export function transcript(name: string, neap?: Neap): Transcript {
  const file = new URL(`golden/${name}.txt`, import.meta.url)
  const stable = placeholders(neap)
  let said = ''
  return {
    async neap(words, env = {}) {
      const args = typeof words === 'string' ? words.split(' ') : words
      // Unset environment variables that would change the output.
      const plain = { NEAP_API_URL: undefined, NEAP_API_KEY: undefined, FORCE_COLOR: undefined, ...env }
      const ran = await neapRun(args, envOf(neap?.ready.data_dir ?? '/nowhere', plain))
      const asked = args.map((arg) => (/^[\w.:/=<>-]+$/.test(arg) ? arg : `'${arg}'`)).join(' ')
      const out = args.includes('--json') && ran.stdout !== '' ? shape(ran.stdout) : ran.stdout
      // A slow machine shows the progress of a wait.
      const err = ran.stderr.replaceAll(/^[a-z]+_[a-z]+(: .*)?\n/gm, '').replaceAll(/^(?=.)/gm, '! ')
      const help = args.includes('--help')
      if (!help) aligned(ran.stdout)
      said += (help ? String : stable)(`$ neap ${asked}\n${out}${err}${ran.code === 0 ? '' : `exit ${ran.code}\n`}\n`)
      return ran
    },
    compare() {
      if (process.env['UPDATE_GOLDEN']) writeFileSync(file, said)
      else assert.equal(said, readFileSync(file, 'utf8'), `not as ${file.pathname} has it; UPDATE_GOLDEN=1 writes it`)
    },
  }
}

/** The field names of the API's answer. Other tests compare their values. */
function shape(stdout: string): string {
  assert.match(stdout, /^[^\n]+\n$/, '--json is one line')
  const answer = JSON.parse(stdout) as object
  const fields = (thing: object) => Object.keys(thing).sort().join(', ')
  return Array.isArray(answer)
    ? `[${answer.length} × {${fields((answer[0] ?? {}) as object)}}]\n`
    : `{${fields(answer)}}\n`
}

/** Asserts that each column of a table starts below its heading, after two spaces. */
function aligned(stdout: string): void {
  const [heading = '', ...rows] = stdout.trimEnd().split('\n')
  if (!/^[A-Z]+( [A-Z]+)*( {2,}[A-Z]+( [A-Z]+)*)+$/.test(heading)) return
  for (const { index } of heading.matchAll(/(?<= {2}|^)[A-Z]/g))
    for (const row of rows) assert.match(row.slice(Math.max(0, index - 2)), index === 0 ? /^\S/ : /^ {2}\S/, stdout)
}

const KINDS = [
  [/\bbr-[a-z]+-[a-z]+-[a-z0-9]{8}\b/g, 'branch'],
  [/\bep-[a-z]+-[a-z]+-[a-z0-9]{8}\b/g, 'endpoint'],
  [/\b[a-z]+-[a-z]+-\d{8}\b/g, 'project'],
  [/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, 'operation'],
] as const

function placeholders(neap: Neap | undefined): (text: string) => string {
  const known = new Map<string, string>()
  const counts = new Map<string, number>()
  const name = (kind: string, id: string): string => {
    const before = known.get(id)
    if (before) return before
    const count = (counts.get(kind) ?? 0) + 1
    counts.set(kind, count)
    known.set(id, `<${kind}-${count}>`)
    return name(kind, id)
  }
  return (text) => {
    let stable = text.replaceAll(/postgresql:\/\/\S+/g, connection)
    if (neap)
      stable = stable.replaceAll(neap.ready.data_dir, '<data>').replaceAll(new URL(neap.ready.api_url).origin, '<api>')
    for (const [pattern, kind] of KINDS) stable = stable.replaceAll(pattern, (id) => name(kind, id))
    return stable
      .replaceAll(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>')
      .replaceAll(/\bneap_\w{40,}/g, '<key>')
      .replaceAll(/\bnpg_\w{20,}/g, '<password>')
      .replaceAll(/\bwhsec_[\w+/=]{40,}/g, '<secret>')
      .replaceAll(/(TOOK +|<time> {2,})\d+ m?s\b/g, '$1<took>')
      .replaceAll(/(?<=\S) {2,}(?=\S)/g, '  ')
  }
}

/** A connection string with the endpoint as its host, regardless of name resolution on this machine. */
function connection(uri: string): string {
  const { username, pathname, searchParams, hostname } = new URL(uri)
  const endpoint = (searchParams.get('options')?.replace('endpoint=', '') ?? hostname).replace(/\..*/, '')
  return `postgresql://${username}:<password>@${endpoint}${pathname}`
}
