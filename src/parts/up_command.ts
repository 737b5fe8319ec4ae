import { Command } from 'commander'
import { hasScreen, openBrowser } from '../cli/open_browser.ts'
import { apiPort, catalogUrl, dataDir, listen, proxyPort } from '../cli/options.ts'
import { printReady } from '../cli/ready.ts'
import { loadConfig, type Overrides } from '../config.ts'
import { SETTINGS } from '../settings.ts'
import { terminalProgress } from '../supervisor/progress.ts'
import { up } from '../supervisor/up.ts'

interface UpFlags extends Overrides {
  readonly json?: boolean
  readonly open: boolean
  readonly project: boolean
  readonly leaveRunning?: boolean
}

/** `neap up`: all of Neap. */
export function upCommand(env: NodeJS.ProcessEnv): Command {
  return new Command('up')
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
    .action((flags: UpFlags) => runUp(flags, env))
}

async function runUp(flags: UpFlags, env: NodeJS.ProcessEnv): Promise<void> {
  const config = loadConfig(flags)
  const told = new Promise<void>((resolve) => {
    // A terminal that closes ends it, too.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => resolve())
  })
  const given = (name: 'apiPort' | 'proxyPort' | 'apiMetricsPort' | 'workerMetricsPort' | 'proxyMetricsPort') =>
    flags[name] !== undefined || Boolean(env[SETTINGS[name].env])
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
        if (flags.open && !flags.json && hasScreen(env)) openBrowser(ready.console_url, ready.data_dir)
      },
    },
    told,
  )
}
