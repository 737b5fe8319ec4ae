import { join, resolve } from 'node:path'
import { defaultDataDir, defaultRuntimeDir } from './directories.ts'
import { DISK_SETTINGS } from './disk_settings.ts'
import { RETENTION_SETTINGS } from './retention_settings.ts'
import {
  addresses,
  cidrs,
  connections,
  file,
  host,
  limit,
  name,
  optionalLimit,
  port,
  postgresPrograms,
  seconds,
  setting,
  text,
  uids,
  whole,
} from './setting_kinds.ts'
import { SIGN_IN_SETTINGS } from './sign_in_settings.ts'

/** All settings. docs/settings.md is made from them. */
export const SETTINGS = {
  dataDir: setting<string>({
    env: 'NEAP_DATA_DIR',
    flag: '--data-dir',
    parse: (value) => resolve(value),
    expects: text.expects,
    about: 'Where everything is kept.',
    fallback: defaultDataDir,
  }),
  runtimeDir: setting<string>({
    env: 'NEAP_RUNTIME_DIR',
    ...text,
    about: 'Where Unix sockets are; a short path.',
    fallback: defaultRuntimeDir,
  }),
  catalogUrl: setting<string | undefined>({
    env: 'NEAP_CATALOG_URL',
    flag: '--catalog-url',
    parse: (value) => (/^postgres(ql)?:\/\//.test(value) ? value : undefined),
    expects: 'a Postgres URL of a direct session: postgresql://user:password@host/database',
    about: 'A Postgres of yours to use as the catalog, instead of the embedded one.',
    fallback: () => undefined,
  }),
  proxyCatalogUrl: setting<string | undefined>({
    env: 'NEAP_PROXY_CATALOG_URL',
    ...text,
    about: 'The URL of that catalog for the role neap_proxy; without it proxies use the one of all parts.',
    fallback: () => undefined,
  }),
  apiPort: setting<number>({
    env: 'NEAP_API_PORT',
    flag: '--api-port',
    ...port,
    about: 'Port of the API.',
    fallback: () => 7070,
  }),
  proxyPort: setting<number>({
    env: 'NEAP_PROXY_PORT',
    flag: '--proxy-port',
    ...port,
    about: 'Port of the Postgres proxy.',
    fallback: () => 7071,
  }),
  extraProxyPort: setting<number>({
    env: 'NEAP_EXTRA_PROXY_PORT',
    parse: whole(0, 65535),
    expects: 'a port from 1 to 65535 (0: none)',
    about:
      'Another port of the proxy, where it is free: ' +
      'clients that make their own connection strings take 5432 (0: none).',
    fallback: () => 5432,
  }),
  listen: setting<readonly string[]>({
    env: 'NEAP_LISTEN',
    flag: '--listen',
    ...addresses,
    about:
      'Addresses that API and proxy listen on, with commas between; `0.0.0.0` and `::` are all. ' +
      'The API speaks TLS on all but those of loopback.',
    fallback: () => ['127.0.0.1'],
  }),
  publicHost: setting<string | undefined>({
    env: 'NEAP_PUBLIC_HOST',
    ...host,
    about:
      'The host that connection strings name, where clients reach this Neap by another than it listens on. ' +
      "As `<region>.<domain>` it says that clients resolve the endpoints' names below it.",
    fallback: () => undefined,
  }),
  publicPort: setting<number | undefined>({
    env: 'NEAP_PUBLIC_PORT',
    parse: whole(1, 65535),
    expects: 'a port from 1 to 65535',
    about: 'And the port, where it is not that of the proxy.',
    fallback: () => undefined,
  }),
  proxyProtocolFrom: setting<readonly string[]>({
    env: 'NEAP_PROXY_PROTOCOL_FROM',
    ...cidrs,
    about:
      "Networks of forwarders before the proxy, which begin each connection with the client's address " +
      '(PROXY protocol, version 1 or 2). From there it is required, from elsewhere refused.',
    fallback: () => [],
  }),
  forwardedForFrom: setting<readonly string[]>({
    env: 'NEAP_FORWARDED_FOR_FROM',
    ...cidrs,
    about:
      "Networks of HTTP proxies whose `X-Forwarded-For` is taken for the client's address, by the API and by `/sql`.",
    fallback: () => [],
  }),
  pgBackRest: setting<string>({
    env: 'NEAP_PGBACKREST',
    ...text,
    about: 'The program of pgBackRest, which writes backups to a repository.',
    fallback: () => 'pgbackrest',
  }),
  workerMetricsPort: setting<number>({
    env: 'NEAP_WORKER_METRICS_PORT',
    ...port,
    about: 'Port of `/metrics`, `/healthz` and `/readyz` of the worker; the next free one where it is taken.',
    fallback: () => 7072,
  }),
  proxyMetricsPort: setting<number>({
    env: 'NEAP_PROXY_METRICS_PORT',
    ...port,
    about: 'And of the first proxy; the others take the next free ones.',
    fallback: () => 7073,
  }),
  apiMetricsPort: setting<number>({
    env: 'NEAP_API_METRICS_PORT',
    ...port,
    about: 'And of the API, whose own port has `/healthz` and `/readyz` only.',
    fallback: () => 7069,
  }),
  proxies: setting<number>({
    env: 'NEAP_PROXIES',
    parse: whole(0, 64),
    expects: 'a number from 0 to 64',
    about: 'How many proxies `neap up` runs, which share one port (0: one per two cores, at most 4).',
    fallback: () => 0,
  }),
  proxyDrain: setting<number>({
    env: 'NEAP_PROXY_DRAIN',
    ...seconds(0, 86_400),
    about: 'How long the sessions of a proxy that gets SIGTERM may go on; new ones are for the others.',
    fallback: () => 10,
  }),
  region: setting<string>({
    env: 'NEAP_REGION',
    ...name,
    about: 'Name of this region, part of every host name.',
    fallback: () => 'local',
  }),
  domain: setting<string>({
    env: 'NEAP_DOMAIN',
    ...name,
    about: 'Domain that endpoint host names end in.',
    fallback: () => 'localhost',
  }),
  tlsCert: setting<string | undefined>({
    env: 'NEAP_TLS_CERT',
    ...file,
    about:
      'A certificate of yours (PEM, with its chain) for the proxy to show, ' +
      "instead of one by Neap's own authority. Read again when the file changes.",
    fallback: () => undefined,
  }),
  tlsKey: setting<string | undefined>({
    env: 'NEAP_TLS_KEY',
    ...file,
    about: 'And its private key (PEM, without a passphrase).',
    fallback: () => undefined,
  }),
  secretFile: setting<string>({
    env: 'NEAP_SECRET_FILE',
    ...text,
    about: 'The master key, on which all secrets rest; for a part by itself, the file with its keys.',
    fallback: (dataDir) => join(dataDir, 'secret.key'),
  }),
  plan: setting<'free' | 'paid'>({
    env: 'NEAP_PLAN',
    parse: (value) => (value === 'free' || value === 'paid' ? value : undefined),
    expects: 'free or paid',
    about: 'Plan of the account that owns this Neap. With `free` every new or resized endpoint has 0.25 CU.',
    fallback: () => 'paid',
  }),
  rateLimitPerMinute: optionalLimit(
    'NEAP_RATE_LIMIT_PER_MINUTE',
    'API requests that one key may make in a minute, for each family of routes.',
    6000,
  ),
  rateLimitPerSecond: optionalLimit('NEAP_RATE_LIMIT_PER_SECOND', 'And in a second.', 200),
  apiConnectionsPerAddress: setting<number>({
    env: 'NEAP_API_CONNECTIONS_PER_ADDRESS',
    ...connections,
    about:
      'Connections to one API process from one client address (of IPv6: one /64) at once; ' +
      'raise it behind a reverse proxy. Beyond, the one that has waited longest for a request is ended.',
    fallback: () => 1_000,
  }),
  requestsPerKey: optionalLimit(
    'NEAP_REQUESTS_PER_KEY',
    'API requests of one key that may be under way at once. This and the next two are for each API process; ' +
      'all keys of an account together have twice as much.',
    100,
  ),
  streamsPerKey: optionalLimit('NEAP_STREAMS_PER_KEY', 'Streams of events that one key may have open.', 100),
  cpuPerKey: setting<number>({
    env: 'NEAP_CPU_PER_KEY',
    parse: whole(0, 100),
    expects: 'percent of a core from 1 to 100 (0: no limit)',
    about:
      'How much of a core, in percent, the requests of one key and their operations may take for long; ' +
      'one second of it may be taken at once.',
    fallback: () => 10,
  }),
  projectsLimit: limit('NEAP_PROJECTS_LIMIT', 'Projects of one account.', 1000),
  branchesLimit: limit('NEAP_BRANCHES_LIMIT', 'Branches of one project.', 1000),
  rolesLimit: limit('NEAP_ROLES_LIMIT', 'Roles of one branch.', 500),
  databasesLimit: limit('NEAP_DATABASES_LIMIT', 'Databases of one branch.', 500),
  organizationsLimit: setting<number>({
    env: 'NEAP_ORGANIZATIONS_LIMIT',
    parse: whole(0, 1000),
    expects: 'a number from 0 to 1000',
    about:
      'Organizations that one person may create, each with projects and limits of its own (0: only admins of the ' +
      'first organization create any).',
    fallback: () => 0,
  }),
  ...SIGN_IN_SETTINGS,
  strictLocking: setting<boolean>({
    env: 'NEAP_STRICT_LOCKING',
    parse: (value) => ({ true: true, false: false })[value],
    expects: 'true or false',
    about: 'Answer 423 to a write while operations of its project are under way, instead of queueing behind them.',
    fallback: () => false,
  }),
  suspendTimeout: setting<number>({
    env: 'NEAP_SUSPEND_TIMEOUT',
    ...seconds(-1, 604_800),
    about: 'Idle seconds until a compute is suspended, unless its endpoint sets another value (-1: never).',
    fallback: () => 300,
  }),
  minSuspendTimeout: setting<number>({
    env: 'NEAP_MIN_SUSPEND_TIMEOUT',
    ...seconds(1, 604_800),
    about: 'The shortest suspend_timeout_seconds that the API takes.',
    fallback: () => 60,
  }),
  wakeTimeout: setting<number>({
    env: 'NEAP_WAKE_TIMEOUT',
    ...seconds(1, 600),
    about: 'How long the proxy lets a client wait for its compute.',
    fallback: () => 60,
  }),
  connectionsPerEndpoint: setting<number>({
    env: 'NEAP_CONNECTIONS_PER_ENDPOINT',
    ...connections,
    about: 'Connections of one endpoint at once. This and the next four are what each proxy process takes by itself.',
    fallback: () => 10_000,
  }),
  connectionsPerAddress: setting<number>({
    env: 'NEAP_CONNECTIONS_PER_ADDRESS',
    ...connections,
    about: 'Connections from one client address (of IPv6: one /64) at once.',
    fallback: () => 0,
  }),
  connectionsLoggingIn: setting<number>({
    env: 'NEAP_CONNECTIONS_LOGGING_IN',
    ...connections,
    about: 'Connections in all that have not shown a password yet.',
    fallback: () => 5_000,
  }),
  connectionsLoggingInPerAddress: setting<number>({
    env: 'NEAP_CONNECTIONS_LOGGING_IN_PER_ADDRESS',
    ...connections,
    about: 'Of these, from one client address (of IPv6: one /64).',
    fallback: () => 1_000,
  }),
  newConnectionsPerSecond: setting<number>({
    env: 'NEAP_NEW_CONNECTIONS_PER_SECOND',
    ...connections,
    about:
      'New connections of one endpoint, and from one client address, in a second, for long; ' +
      'ten times as many may come at once.',
    fallback: () => 500,
  }),
  poolSize: setting<number>({
    env: 'NEAP_POOL_SIZE',
    parse: whole(1, 10_000),
    expects: 'a number of connections from 1 to 10000',
    about: 'How many sessions at a compute the pooled clients of one user and database share, in each proxy process.',
    fallback: () => 32,
  }),
  availabilityInterval: setting<number>({
    env: 'NEAP_AVAILABILITY_INTERVAL',
    ...seconds(0, 31_536_000),
    about: 'Seconds between two checks that a branch is there and its compute can start (0: never).',
    fallback: () => 86_400,
  }),
  ...RETENTION_SETTINGS,
  workerConcurrency: setting<number>({
    env: 'NEAP_WORKER_CONCURRENCY',
    parse: whole(1, 256),
    expects: 'a number from 1 to 256',
    about: 'How many starts one worker runs at once, and how many suspends, and how many other operations.',
    fallback: () => 16,
  }),
  copies: setting<number>({
    env: 'NEAP_COPIES',
    parse: whole(0, 1_000),
    expects: 'a number from 0 to 1000',
    about:
      'Branches that one host copies at once (0: two per core, at most 8): half of them for one project. A project ' +
      'without a copy need not wait, up to four times as many in all, the last of them for other accounts.',
    fallback: () => 0,
  }),
  replayMb: limit(
    'NEAP_REPLAY_MB',
    'WAL that a branch may have to replay at its first start, in MB. What exceeds is replayed while it is made.',
    256,
  ),
  operationsLimit: limit(
    'NEAP_OPERATIONS_LIMIT',
    'Operations of one project that are queued or running. Beyond, changes are refused with 429; connections are not.',
    1000,
  ),
  overcommit: setting<number>({
    env: 'NEAP_OVERCOMMIT',
    parse: (value) => (/^\d{1,4}(\.\d{1,3})?$/.test(value) && Number(value) > 0 ? Number(value) : undefined),
    expects: 'a number from 0.001 to 9999',
    about:
      'How many times the CPUs and the memory of this machine the sizes of running computes may sum up to (1 CU: ' +
      'one CPU and 4 GiB). Beyond, starts wait for half a minute, and computes grow to what is left.',
    fallback: () => 16,
  }),
  ...DISK_SETTINGS,
  postgres: setting<readonly string[]>({
    env: 'NEAP_POSTGRES',
    ...postgresPrograms,
    about:
      'The Postgres to use for versions, with the extensions that are installed there. By default Neap brings 18 and ' +
      'uses /usr/lib/postgresql/<version>/bin for others.',
    fallback: () => [],
  }),
  uids: setting<string | undefined>({
    env: 'NEAP_UIDS',
    ...uids,
    about:
      "The uids and gids that servers run as where Neap runs as root: the first is the embedded catalog's, " +
      'the others are given to branches, one each. ' +
      'By default 262,144 from 1073741824 on, by the path of the data directory.',
    fallback: () => undefined,
  }),
  computeNetwork: setting<'none' | 'host'>({
    env: 'NEAP_COMPUTE_NETWORK',
    parse: (value) => (value === 'none' || value === 'host' ? value : undefined),
    expects: 'none or host',
    about:
      'Where computes may connect to: nowhere, or wherever this machine can ' +
      '(for subscriptions to other servers), its loopback and private networks included.',
    fallback: () => 'none',
  }),
  egressAllow: setting<readonly string[]>({
    env: 'NEAP_EGRESS_ALLOW',
    ...cidrs,
    about:
      'Networks that computes of projects with `enable_egress` reach beside public addresses, as `10.20.0.0/16`. ' +
      'This machine, its links and metadata services stay closed.',
    fallback: () => [],
  }),
  webhookAllow: setting<readonly string[]>({
    env: 'NEAP_WEBHOOK_ALLOW',
    ...cidrs,
    about: 'Networks that webhooks may reach beside public ones, also by http: `127.0.0.0/8,::1/128` for this machine.',
    fallback: () => [],
  }),
  webhookTimeout: setting<number>({
    env: 'NEAP_WEBHOOK_TIMEOUT',
    ...seconds(1, 60),
    about: 'How long a webhook may take to answer.',
    fallback: () => 10,
  }),
  logLevel: setting<string>({
    env: 'NEAP_LOG_LEVEL',
    about: 'How much the parts log: debug, info, warn, error.',
    fallback: () => 'info',
    expects: 'debug, info, warn or error',
    parse: (value) => (['debug', 'info', 'warn', 'error'].includes(value) ? value : undefined),
  }),
}
