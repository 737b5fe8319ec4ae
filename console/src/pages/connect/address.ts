/** Where a client connects to, as the parts of its connection string. */
export interface Address {
  /** The connection string as the API gives it: TLS without verification. */
  readonly uri: string
  readonly host: string
  readonly port: string
  readonly user: string
  readonly password: string
  readonly database: string
  /** Startup options that name the endpoint, where its host name does not. */
  readonly options: string | undefined
  /** The file of the certificate authority to verify with; undefined: the server is not verified. */
  readonly authority: string | undefined
}

/** The name of the authority's file in all snippets. */
export const AUTHORITY_FILE = 'neap-ca.crt'

/** The parts of a connection string of the API. */
export function addressOf(given: string, verifies: boolean): Address {
  // The only character of an encoded URI that ends a string or a shell's word in single quotes.
  const uri = given.replaceAll("'", '%27')
  const { hostname, port, username, password, pathname, searchParams } = new URL(uri)
  return {
    uri,
    host: hostname,
    port,
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
    options: searchParams.get('options') ?? undefined,
    authority: verifies ? AUTHORITY_FILE : undefined,
  }
}

/** The connection string for libpq and drivers that read its parameters. */
export const libpqUri = ({ uri, authority }: Address): string =>
  authority === undefined
    ? uri
    : uri.replace('sslmode=require', `sslmode=verify-full&sslrootcert=${encodeURIComponent(authority)}`)

/** The connection string of JDBC, whose user and password are parameters. */
export function jdbcUrl({ host, port, user, password, database, options, authority }: Address): string {
  const parameters = {
    user,
    password,
    sslmode: authority === undefined ? 'require' : 'verify-full',
    ...(authority !== undefined && { sslrootcert: authority }),
    ...(options !== undefined && { options }),
  }
  const query = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return `jdbc:postgresql://${host}:${port}/${encodeURIComponent(database)}?${query.join('&')}`
}
