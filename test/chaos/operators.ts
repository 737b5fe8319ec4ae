/* What happens to machines and their operators: a long recovery, a catalog from a backup, another's data directory. */
import { execFileSync } from 'node:child_process'
import { copyFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { catalogQuery, catalogUrl } from '../admin.ts'
import { envOf, newDataDir, spawnNeap } from '../neap.ts'
import { kill } from '../processes.ts'
import type { Random } from '../random.ts'
import { stopReplay } from '../stopped_replay.ts'
import { enter } from './data.ts'
import { catalogOf, healed, pause, postmasterOf, standing, type World } from './world.ts'

/** A compute whose replay after a crash stands still for a while: clients wait, and the replay goes on. */
export async function longRecovery(world: World, random: Random): Promise<void> {
  const spot = random.pick(standing(world))
  const over = world.history.disrupt(`a long recovery of ${spot.name}`, ['sessions', 'connects'], spot.branch_id)
  const client = await enter(world, spot, () => {})
  const filler = `pg_logical_emit_message(false, 'filler', repeat('a', 1000000))`
  await client?.query(`select count(${filler}) from generate_series(1, 64)`).catch(() => {})
  await client?.end().catch(() => {})
  const pid = postmasterOf(world, spot)
  if (pid !== undefined) {
    await kill(pid)
    const replaying = stopReplay(() => postmasterOf(world, spot))
    const entering = enter(world, spot, () => {})
    const replay = await replaying
    await pause(random.between(1_000, 8_000))
    try {
      if (replay !== undefined) process.kill(replay, 'SIGCONT')
    } catch {
      // The branch was deleted meanwhile.
    }
    await (await entering)?.end().catch(() => {})
  }
  over()
}

/** Replaces the catalog by its files of some seconds ago. Computes have been started and suspended since. */
export async function restoredCatalog(world: World, random: Random): Promise<void> {
  const over = world.history.disrupt('a restored catalog', ['sessions', 'connects', 'requests'])
  const { promise, resolve } = Promise.withResolvers<void>()
  // A restore loses what was answered since the backup, which the run cannot know.
  world.held = promise
  const [catalog, backup] = [join(world.dataDir, 'catalog'), join(world.dataDir, 'catalog.before')]
  try {
    await quiet(world)
    await world.restart(async () => {
      await stopCatalog(world)
      execFileSync('cp', ['-a', catalog, backup])
    })
    await pause(random.between(1_000, 6_000))
    await world.restart(async () => {
      await stopCatalog(world)
      rmSync(catalog, { recursive: true })
      renameSync(backup, catalog)
    })
  } finally {
    resolve()
  }
  over()
}

/** Waits until no operation but those of computes is left. */
async function quiet(world: World): Promise<void> {
  const unfinished = `select from operation where finished_at is null and action not like '%_compute'`
  while ((await catalogQuery(world.neap, unfinished).catch(() => [{}])).length > 0) await pause(50)
}

async function stopCatalog(world: World): Promise<void> {
  await world.neap.kill()
  const pid = catalogOf(world)
  if (pid !== undefined) await kill(pid)
}

/** A worker with the data directory of another installation is refused. */
export async function foreignWorker(world: World): Promise<void> {
  const dataDir = newDataDir()
  for (const name of ['secret.key', 'host']) copyFileSync(join(world.dataDir, name), join(dataDir, name))
  const note = readFileSync(join(world.dataDir, 'installation'), 'utf8')
  writeFileSync(join(dataDir, 'installation'), note.replace(/^.{8}/, '01234567'))
  const url = await catalogUrl(world.neap)
  const child = spawnNeap(['worker', '--data-dir', dataDir], envOf(dataDir, { NEAP_CATALOG_URL: url }))
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text))
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  await Promise.race([ended, pause(20_000)])
  const isRefused = child.exitCode !== null && said.includes('belong to another installation')
  world.checks.record('single', !isRefused && `a worker of another installation was not refused: ${said}`)
  child.kill('SIGKILL')
  await ended
  rmSync(dataDir, { recursive: true, force: true })
  await healed(world)
}
