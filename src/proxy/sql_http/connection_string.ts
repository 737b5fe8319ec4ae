import { route } from '../connect/route.ts'
import { ProxyError } from '../wire/errors.ts'
import { PROTOCOL_3_0 } from '../wire/startup.ts'
import { Refusal } from './refusal.ts'

/** The login data of a connection string. */
export interface HttpLogin {
  /**
   * The pooled host name of the endpoint, so that many requests share few sessions of its compute. The host of the
   * string if it names no endpoint.
   */
  readonly serverName: string
  readonly password: string
  /** Of the startup packet. */
  readonly parameters: ReadonlyMap<string, string>
}

/** Parameters of a connection string that belong in the startup packet. */
const PASSED_ON = ['application_name', 'options']

/** First labels of host names that serve HTTP and are no endpoints. */
const NO_ENDPOINT = /^(api|apiauth)\./i

/** Returns undefined for a host name that only serves HTTP. */
export const endpointHost = (host: string | undefined): string | undefined =>
  host === undefined || NO_ENDPOINT.test(host) ? undefined : host

/**
 * Reads a connection URI (Postgres manual, "Connection URIs").
 * @param domain the part of the proxy's host names after the endpoint
 * Errors: Refusal.
 */
export function parseConnectionString(text: string, domain: string): HttpLogin {
  let url: URL
  let login: { user: string; password: string; database: string; more: [string, string][] }
  try {
    url = new URL(text)
    login = {
      user: decodeURIComponent(url.username),
      password: decodeURIComponent(url.password),
      database: decodeURIComponent(url.pathname.slice(1)),
      more: url.search
        .slice(1)
        .split('&')
        .map((pair) => {
          const [name = '', ...value] = pair.split('=')
          return [decodeURIComponent(name), decodeURIComponent(value.join('='))]
        }),
    }
  } catch {
    throw invalid('it must be a URI, with special characters percent-encoded')
  }
  const { user, password, database } = login
  if (url.protocol !== 'postgresql:' && url.protocol !== 'postgres:') throw invalid('it must begin with postgresql://')
  if (user === '') throw invalid('it names no user')
  if (password === '') throw invalid('it has no password')
  const more = login.more.filter(([name, value]) => PASSED_ON.includes(name) && value !== '')
  const parameters = new Map([['user', user], ...(database ? ([['database', database]] as const) : []), ...more])
  // A NUL ends a text in the protocol: the rest would be read as more parameters.
  if ([...parameters.values(), password].some((value) => value.includes('\0'))) throw invalid('it holds a NUL')
  const hostName = endpointHost(decodeURIComponent(url.hostname)) ?? ''
  try {
    const { endpointId, startup } = route({ version: PROTOCOL_3_0, parameters }, hostName, domain)
    const serverName = endpointId === undefined ? hostName : `${endpointId}-pooler.${domain}`
    const named = endpointId === undefined ? parameters : startup.parameters
    return { serverName, password, parameters: new Map([...named, ['client_encoding', 'UTF8']]) }
  } catch (error) {
    if (error instanceof ProxyError) throw new Refusal(400, error.message, { code: error.code })
    throw error
  }
}

const invalid = (why: string): Refusal =>
  new Refusal(400, `The connection string in Neon-Connection-String is not valid: ${why}.`)
