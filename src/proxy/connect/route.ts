import { ProxyError } from '../wire/errors.ts'
import { isProtocolOption, type Startup } from '../wire/startup.ts'

export interface ClientRoute {
  /** undefined when the client has not named it; the password may include it. */
  readonly endpointId: string | undefined
  /** Whether the client asks for a pooled session, by `-pooler` in the endpoint's name. */
  readonly pooled: boolean
  /** Whether the client asks to be let in by a person, by the word `passwordless` in its startup options. */
  readonly passwordless: boolean
  /** The startup packet for the compute: the client's, without the options for the proxy. */
  readonly startup: Startup
}

const POOLER = /-pooler$/

/**
 * Determines a client's endpoint from the first label of its SNI host name, if that is in our domain, or from
 * `endpoint=<id>` (formerly `project=<id>`) in its startup options, which may also hold the whole host name.
 * @param serverName the client's SNI (RFC 6066), which is never an address
 * @param domain the suffix of endpoint host names
 * Errors: inconsistent_endpoint, bad_endpoint.
 */
export function route(startup: Startup, serverName: string | undefined, domain: string): ClientRoute {
  const options = splitOptions(startup.parameters.get('options') ?? '')
  const label = labelOf(serverName, domain)
  const bySni = label?.replace(POOLER, '')
  const named = options.flatMap((word) => /^(?:endpoint|project)=(.*)$/s.exec(word.text)?.[1] ?? [])
  const option = named.length === 1 ? (labelOf(named[0], domain) ?? named[0]) : undefined
  const byOption = option?.replace(POOLER, '')
  if (bySni !== undefined && byOption !== undefined && bySni !== byOption) {
    throw new ProxyError('inconsistent_endpoint', {
      text: `Inconsistent project name inferred from SNI ('${bySni}') and project option ('${byOption}').`,
    })
  }
  const endpointId = byOption ?? bySni
  if (endpointId !== undefined && !/^[a-z0-9-]+$/i.test(endpointId)) {
    throw new ProxyError('bad_endpoint', {
      text: `Endpoint ID ('${endpointId}') must contain only alphanumeric characters and hyphen.`,
    })
  }
  const kept = options
    .filter((word) => !isOurs(word.text))
    .map((word) => word.raw)
    .join(' ')
  const parameters = new Map([...startup.parameters].filter(([name]) => !isProtocolOption(name)))
  if (kept) parameters.set('options', kept)
  else parameters.delete('options')
  const pooled = [label, option].some((given) => given !== undefined && POOLER.test(given))
  const passwordless = options.some(({ text }) => text === PASSWORDLESS)
  return { endpointId, pooled, passwordless, startup: { version: startup.version, parameters } }
}

function labelOf(serverName: string | undefined, domain: string): string | undefined {
  const name = serverName?.toLowerCase().replace(/\.$/, '') ?? ''
  const suffix = `.${domain.toLowerCase()}`
  const label = name.endsWith(suffix) ? name.slice(0, -suffix.length) : ''
  return label === '' || label.includes('.') ? undefined : label
}

const PASSWORDLESS = 'passwordless'

const isOurs = (word: string): boolean => word === PASSWORDLESS || /^(?:endpoint|project)=|^neon_[a-z_]+:/s.test(word)

/** Splits as Postgres does, at (ASCII) white space without a backslash before it, into words raw and unescaped. */
function splitOptions(options: string): { raw: string; text: string }[] {
  const words = options.match(/(?:\\[\s\S]|[^\\ \t\n\v\f\r])+/g) ?? []
  return words.map((raw) => ({ raw, text: raw.replace(/\\([\s\S])/g, '$1') }))
}
