import { Command } from 'commander'
import { apiPort, catalogUrl, dataDir, listen, proxyPort } from '../cli/options.ts'
import { loadConfig, type Overrides } from '../config.ts'
import type { PartName } from '../secrets/part_keys.ts'

const ABOUT: Record<PartName, string> = {
  api: 'the management API',
  worker: 'the worker that makes operations true',
  proxy: 'the Postgres proxy',
}

/** `neap api`, `neap worker` and `neap proxy`: one part of Neap by itself. */
export function partCommand(name: PartName): Command {
  return new Command(name)
    .summary(`Run ${ABOUT[name]}.`)
    .description(`Run ${ABOUT[name]} by itself. Needs a catalog that runs (neap up starts all of it).`)
    .addOption(dataDir)
    .addOption(catalogUrl)
    .addOption(name === 'proxy' ? proxyPort : apiPort)
    .addOption(listen)
    .action((flags: Overrides) => runOne(name, flags))
}

async function runOne(name: PartName, flags: Overrides): Promise<void> {
  const config = loadConfig(flags)
  const { runPart } = await import('./part.ts')
  switch (name) {
    case 'api':
      return runPart(name, config, (await import('./api.ts')).startApi)
    case 'worker': {
      const { startWorker } = await import('./worker.ts')
      return runPart(name, config, (context) => startWorker(context))
    }
    case 'proxy':
      return runPart(name, config, (await import('./proxy.ts')).startProxyPart)
  }
}
