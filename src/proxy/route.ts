import { ProxyError } from './errors.ts'
import { isProtocolOption, type Startup } from './startup.ts'

export interface ClientRoute {
  /** Nothing where the client has not said: it may with its password. */
  readonly endpointId: string | undefined
  /** Whether it asks to share sessions with others: its endpoint is named with `-pooler`. */
  readonly pooled: boolean
  /** What the compute is to get: the client's own words without those that were meant for the proxy. */
  readonly startup: Startup
}

const POOLER = /-pooler$/

/**
 * Finds which endpoint a client means: by the first label of the host name it sent by TLS, if the rest of that name is
 * ours, or by the word `endpoint=<id>` (formerly `project=<id>`) in its startup options, where the whole name may stand too.
 * @param serverName what the client sent by SNI (RFC 6066), which is never an address
 * @param domain what follows the endpoint in our host names
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
  return { endpointId, pooled, startup: { version: startup.version, parameters } }
}

function labelOf(serverName: string | undefined, domain: string): string | undefined {
  const name = serverName?.toLowerCase().replace(/\.$/, '') ?? ''
  const suffix = `.${domain.toLowerCase()}`
  const label = name.endsWith(suffix) ? name.slice(0, -suffix.length) : ''
  return label === '' || label.includes('.') ? undefined : label
}

const isOurs = (word: string): boolean => /^(?:endpoint|project)=|^neon_[a-z_]+:/s.test(word)

/** Splits as Postgres does: at (ASCII) white space that no backslash precedes. Each word as it came and as it is meant. */
function splitOptions(options: string): { raw: string; text: string }[] {
  const words = options.match(/(?:\\[\s\S]|[^\\ \t\n\v\f\r])+/g) ?? []
  return words.map((raw) => ({ raw, text: raw.replace(/\\([\s\S])/g, '$1') }))
}
