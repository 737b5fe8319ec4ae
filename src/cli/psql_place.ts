import { readFileSync } from 'node:fs'
import { lookup } from 'node:dns/promises'
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'
import { type Config, loadConfig, type Overrides } from '../config.ts'
import { UsageError } from '../errors.ts'
import { readState } from '../supervisor/data_dir.ts'
import { findProject } from '../supervisor/first_project.ts'
import { localClient } from './connect.ts'
import type { PsqlFlags } from './psql.ts'
import { branchId, findDatabase, projectId } from './resolve.ts'

/** Fetched here: a URI in the arguments shows its password to every local user for as long as the prompt is open. */
export async function uriOf(branch: string | undefined, flags: PsqlFlags): Promise<string> {
  const call = localClient(flags)
  // Report first when no Neap runs there.
  await call('GET /status', {})
  const first = flags.project === undefined ? readState(loadConfig(flags).dataDir).projectId : undefined
  if (branch === undefined && flags.project === undefined && flags.database === undefined) {
    const { connection_uri } = first ? await findProject(call, first) : { connection_uri: null }
    if (connection_uri) return connection_uri
    throw new UsageError('There is no first project to connect to: name another with --project <id or name>.')
  }
  const project_id = first ?? (await projectId(call, flags.project, 'Say which project with --project <id or name>'))
  const params = { project_id, branch_id: await branchId(call, project_id, branch) }
  const { name, owner_name } = await findDatabase(call, params, flags.database)
  const query = { branch_id: params.branch_id, database_name: name, role_name: owner_name }
  return (await call('GET /projects/:project_id/connection_uri', { params, query })).uri
}

/** The server of a URI, by the name in its certificate; on this machine when it does not resolve that name. */
export async function placeOf(uri: string, flags: Overrides) {
  const config = loadConfig(flags)
  const url = parse(uri)
  const name = nameIn(url, config)
  return {
    name,
    isHere: name.endsWith(`.${config.domain}`) && !(await resolves(name)),
    port: Number(url.port || 5432),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
    options: url.searchParams.get('options') ?? undefined,
    authority: config.tlsCert === undefined ? join(config.dataDir, 'tls', 'ca.crt') : undefined,
  }
}

/**
 * The name of the server in its certificate. When endpoint names do not resolve, the URI names localhost, which a
 * certificate of the operator's does not cover.
 */
function nameIn(url: URL, { tlsCert, region, domain }: Config): string {
  const [, endpoint] = /^endpoint=(.+)$/.exec(url.searchParams.get('options') ?? '') ?? []
  if (tlsCert === undefined || endpoint === undefined) return url.hostname
  return endpoint.includes('.') ? endpoint : `${endpoint}.${region}.${domain}`
}

/** Neap's own authority; or the operator's certificate and all authorities that this machine trusts. */
export function trusted({ dataDir, tlsCert }: Config) {
  if (tlsCert === undefined) return { ca: readFileSync(join(dataDir, 'tls', 'ca.crt'), 'utf8') }
  return { ca: [...getCACertificates('default'), readFileSync(tlsCert, 'utf8')], allowPartialTrustChain: true }
}

const resolves = (name: string): Promise<boolean> =>
  lookup(name).then(
    () => true,
    () => false,
  )

function parse(uri: string): URL {
  try {
    return new URL(uri)
  } catch (error) {
    throw new UsageError(
      'That is not a connection URI; one looks like postgresql://user:password@host:port/database?sslmode=require',
      { cause: error },
    )
  }
}
