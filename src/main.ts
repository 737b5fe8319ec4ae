import { Command, CommanderError, Option } from 'commander'
import { approveCommand } from './cli/approve.ts'
import { branchesCommand } from './cli/branches.ts'
import { catalogCommand } from './cli/catalog.ts'
import { certificateAuthorityCommand } from './cli/certificate_authority.ts'
import { connectionStringCommand } from './cli/connection_string.ts'
import { databasesCommand } from './cli/databases.ts'
import { doctorCommand } from './cli/doctor.ts'
import { endpointsCommand } from './cli/endpoints.ts'
import { accountCommand } from './cli/account.ts'
import { keysCommand } from './cli/keys.ts'
import { membersCommand } from './cli/members.ts'
import { operationsCommand } from './cli/operations.ts'
import { projectsCommand } from './cli/projects.ts'
import { psqlCommand } from './cli/psql.ts'
import { rolesCommand } from './cli/roles.ts'
import { secretsCommand } from './cli/secrets.ts'
import { signInCommand } from './cli/sign_in.ts'
import { statusCommand } from './cli/status.ts'
import { webhooksCommand } from './cli/webhooks.ts'
import { printReady } from './cli/ready.ts'
import { adopt, HELP, oneLine } from './cli/usage.ts'
import { loadConfig, type Overrides } from './config.ts'
import { SETTINGS } from './settings.ts'
import { AppError, messageOf, UsageError } from './errors.ts'

const dataDir = new Option(`${SETTINGS.dataDir.flag} <directory>`, SETTINGS.dataDir.about)
const catalogUrl = new Option(`${SETTINGS.catalogUrl.flag} <url>`, SETTINGS.catalogUrl.about)
const apiPort = new Option(`${SETTINGS.apiPort.flag} <port>`, `${SETTINGS.apiPort.about} 0 picks a free one.`)
const proxyPort = new Option(`${SETTINGS.proxyPort.flag} <port>`, `${SETTINGS.proxyPort.about} 0 picks a free one.`)
const listen = new Option(`${SETTINGS.listen.flag} <addresses>`, SETTINGS.listen.about)
const apiUrl = new Option('--api-url <url>', 'the API to ask, instead of the Neap on this machine').env('NEAP_API_URL')
const apiKey = new Option('--api-key <key>', 'a key for the API at --api-url').env('NEAP_API_KEY')
const localNeap = new Option(
  `${SETTINGS.dataDir.flag} <directory>`,
  'data directory of the Neap on this machine to ask',
)
const access = [localNeap, apiUrl, apiKey]

interface UpFlags extends Overrides {
  readonly json?: boolean
  readonly open: boolean
  readonly project: boolean
  readonly leaveRunning?: boolean
}

const program = new Command('neap')
  .description('Serverless Postgres for your own machines.')
  .configureOutput({
    outputError: (text, write) => write(`neap: ${oneLine(text)} (npx neap --help shows what there is)\n`),
  })
  .configureHelp(HELP)
  .helpCommand('help [command]', 'Show the help of a command.')
  .exitOverride()

program
  .command('up')
  .helpGroup('This machine:')
  .summary('Start Neap.')
  .description('Start Neap: catalog, API, worker and proxy. Ctrl-C suspends every compute and ends it.')
  .addOption(dataDir)
  .addOption(catalogUrl)
  .addOption(apiPort)
  .addOption(proxyPort)
  .addOption(listen)
  .option('--json', 'print one line of JSON when all is ready, and nothing else')
  .option('--no-open', 'do not open the console in a browser')
  .option('--no-project', 'make no first project')
  .option('--leave-running', 'leave computes and catalog running at the end; the next start adopts them')
  .action(runUp)

program.commandsGroup('This machine:')
for (const command of [statusCommand, signInCommand, psqlCommand, doctorCommand, secretsCommand, catalogCommand])
  adopt(program, command(dataDir))

program.commandsGroup('Projects and what is in them:')
for (const make of [
  projectsCommand,
  branchesCommand,
  endpointsCommand,
  databasesCommand,
  rolesCommand,
  operationsCommand,
  connectionStringCommand,
  certificateAuthorityCommand,
])
  adopt(program, make(access))

program.commandsGroup('Access:')
adopt(program, accountCommand(access))
adopt(program, approveCommand(access))
adopt(program, keysCommand(access))
adopt(program, membersCommand(access))
adopt(program, webhooksCommand(access))

program.commandsGroup('Parts of Neap by themselves:')
for (const [name, about] of [
  ['api', 'the management API'],
  ['worker', 'the worker that makes operations true'],
  ['proxy', 'the Postgres proxy'],
] as const) {
  program
    .command(name)
    .summary(`Run ${about}.`)
    .description(`Run ${about} by itself. Needs a catalog that runs (neap up starts all of it).`)
    .addOption(dataDir)
    .addOption(catalogUrl)
    .addOption(name === 'proxy' ? proxyPort : apiPort)
    .addOption(listen)
    .action((flags: Overrides) => runOne(name, flags))
}

async function runUp(flags: UpFlags): Promise<void> {
  const { up } = await import('./supervisor/up.ts')
  const { terminalProgress } = await import('./supervisor/progress.ts')
  const { hasScreen, openBrowser } = await import('./cli/open_browser.ts')
  const config = loadConfig(flags)
  const told = new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => resolve())
  })
  const given = (name: 'apiPort' | 'proxyPort' | 'apiMetricsPort' | 'workerMetricsPort' | 'proxyMetricsPort') =>
    flags[name] !== undefined || Boolean(process.env[SETTINGS[name].env])
  await up(
    {
      config,
      asked: {
        apiPort: given('apiPort'),
        proxyPort: given('proxyPort'),
        apiMetricsPort: given('apiMetricsPort'),
        workerMetricsPort: given('workerMetricsPort'),
        proxyMetricsPort: given('proxyMetricsPort'),
      },
      project: flags.project,
      leaveRunning: flags.leaveRunning ?? false,
      progress: terminalProgress(),
      onReady: (ready) => {
        printReady(ready, flags.json ?? false)
        if (flags.open && !flags.json && hasScreen(process.env)) openBrowser(ready.console_url, ready.data_dir)
      },
    },
    told,
  )
}

async function runOne(name: 'api' | 'worker' | 'proxy', flags: Overrides): Promise<void> {
  const config = loadConfig(flags)
  const { runPart } = await import('./parts/part.ts')
  switch (name) {
    case 'api':
      return runPart(name, config, (await import('./parts/api.ts')).startApi)
    case 'worker': {
      const { startWorker } = await import('./parts/worker.ts')
      return runPart(name, config, (context) => startWorker(context))
    }
    case 'proxy':
      return runPart(name, config, (await import('./parts/proxy.ts')).startProxyPart)
  }
}

try {
  await program.parseAsync()
} catch (error) {
  if (error instanceof UsageError || error instanceof AppError) process.stderr.write(`neap: ${error.message}\n`)
  else if (!(error instanceof CommanderError)) {
    process.stderr.write(`neap: ${messageOf(error)}\n`)
    if (process.env['NEAP_LOG_LEVEL'] === 'debug') console.error(error)
  }
  // A part that failed to start may have open listeners and connections, which would delay its exit by seconds.
  process.exit(error instanceof CommanderError && error.exitCode === 0 ? 0 : 1)
}
