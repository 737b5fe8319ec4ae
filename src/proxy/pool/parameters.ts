import { ProxyError } from '../wire/errors.ts'

/**
 * The settings that Postgres reports to its client and that a client chooses (Postgres manual, "Asynchronous
 * Operations"). They follow the client from one server connection to the next. Older versions do not report
 * search_path.
 */
const TRACKED = [
  'application_name',
  'client_encoding',
  'DateStyle',
  'default_transaction_read_only',
  'IntervalStyle',
  'search_path',
  'standard_conforming_strings',
  'TimeZone',
] as const

/**
 * The one of them that Neap configures: it follows the configuration of the compute, not the client, until the client
 * chooses another value than that.
 */
export const CONFIGURED = 'default_transaction_read_only'

const BY_LOWER_CASE = new Map<string, string>(TRACKED.map((name) => [name.toLowerCase(), name]))

/** Parameters that drivers set and that do not change the behaviour that a client may rely on. */
const IGNORED = new Set(['extra_float_digits'])

/** Names and values as a server reports them, in Latin-1, which keeps every byte. */
export type Parameters = Map<string, string>

/**
 * The settings that a pooled client's startup packet asks for.
 * @param parameters of the packet, without those meant for the proxy
 * @param reported the settings that the servers of its pool report
 * Errors: unpoolable.
 */
export function requestedParameters(parameters: ReadonlyMap<string, string>, reported: Parameters): Parameters {
  const requested: Parameters = new Map()
  const ask = (name: string, value: string, where: string): void => {
    const tracked = BY_LOWER_CASE.get(name.toLowerCase())
    if (tracked !== undefined && reported.has(tracked)) requested.set(tracked, value)
    else if (!IGNORED.has(name.toLowerCase()))
      throw new ProxyError('unpoolable', { text: `unsupported startup parameter${where}: ${name}` })
  }
  for (const [name, value] of parameters) {
    if (name === 'user' || name === 'database') continue
    if (name === 'replication') {
      if (/^(0|false|off|no)$/i.test(value)) continue
      throw new ProxyError('unpoolable', { text: 'replication connections cannot be pooled' })
    }
    if (name !== 'options') ask(name, value, '')
    else for (const [option, chosen] of settingsOf(value)) ask(option, chosen, ' in options')
  }
  return requested
}

/**
 * The settings in `options` of a startup packet: `-c name=value`, `-cname=value`, `--name=value`.
 * Errors: unpoolable.
 */
function settingsOf(options: string): [string, string][] {
  const words = (options.match(/(?:\\[\s\S]|[^\\ \t\n\v\f\r])+/g) ?? []).map((raw) => raw.replace(/\\([\s\S])/g, '$1'))
  return words
    .join('\0')
    .replaceAll('-c\0', '-c')
    .split('\0')
    .filter((word) => word !== '')
    .map((word) => {
      const [, name, value] = /^(?:-c|--)([^=]+)=([\s\S]*)$/.exec(word) ?? []
      if (name === undefined || value === undefined)
        throw new ProxyError('unpoolable', { text: `unsupported startup parameter in options: ${word}` })
      return [name.replaceAll('-', '_'), value]
    })
}

/** The statements that apply a client's settings to a server, one for each setting that differs. */
export function settingStatements(wanted: Parameters, has: Parameters): string[] {
  const statements: string[] = []
  for (const [name, value] of wanted) {
    if (has.get(name) === value) continue
    // The value of search_path is a list of names, quoted where they must be.
    const text = name === 'search_path' ? `pg_catalog.set_config('search_path', ${quote(value)}, false)` : undefined
    statements.push(text === undefined ? `SET ${name} = ${quote(value)}` : `SELECT ${text}`)
  }
  return statements
}

const quote = (value: string): string => {
  const text = `'${value.replaceAll("'", "''")}'`
  return value.includes('\\') ? `E${text.replaceAll('\\', '\\\\')}` : text
}

/** The settings among those that a server reports which follow a client from its login on. */
export function trackedOf(reported: Parameters): Parameters {
  const names = TRACKED.filter((name) => name !== CONFIGURED && reported.has(name))
  return new Map(names.map((name) => [name, reported.get(name) ?? '']))
}

/** Comparison key: equal for equal tracked settings. */
export const keyOf = (parameters: Parameters): string => TRACKED.map((name) => parameters.get(name) ?? '').join('\0')

export const isTracked = (name: string): boolean => BY_LOWER_CASE.get(name.toLowerCase()) === name
