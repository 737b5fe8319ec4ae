/* A machine that is lost: restored from the repository of its backups, it has all that was committed before. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { envOf, leaveNothing, neapRun, newDataDir, type Ran, startNeap } from '../neap.ts'
import type { Random } from '../random.ts'
import { enter, holdings } from './data.ts'
import { startLatencies } from './latency.ts'
import { lastOf } from './restore.ts'
import { env, pause, type Spot, standing, type World } from './world.ts'

export const canBackUp = (): boolean => existsSync(env.NEAP_PGBACKREST)

/** Within this time without a fault all that was committed before is in the repository, after any failure before. */
const SAVED_MS = 240_000

interface Saved {
  readonly catalog: { readonly pushed_at: string | null } | null
  readonly branches: readonly { readonly branch_id: string; readonly pushed_at: string | null }[]
}

const backup = ({ dataDir }: World, ...args: string[]): Promise<Ran> =>
  neapRun(['backup', ...args], envOf(dataDir, env))

/**
 * Notes the acknowledged writes on each branch, waits until they are in the repository, restores that to a directory of
 * its own, as on an empty machine, and compares.
 */
export async function lostMachine(world: World, random: Random): Promise<void> {
  const repository = (world.repository ??= await begin(world))
  if (!repository) return
  // Another backup of each branch, while all of it is written to.
  if (random.chance(0.3)) await backup(world, 'run')
  const since = Date.now()
  const told = standing(world).map((spot) => ({
    spot,
    writers: spot.writers.map((writer) => ({ writer, acknowledged: writer.acknowledged })),
  }))
  const spots = told.map(({ spot }) => spot)
  if (!(await awaitSaved(world, spots, since))) return
  const dataDir = newDataDir()
  const secret = { NEAP_BACKUP_PASSPHRASE: repository.passphrase }
  // The copies of earlier restores have written to the repository, too.
  const series = readFileSync(join(world.dataDir, 'backup/series'), 'utf8')
  const args = ['restore', '--from', repository.location, '--series', series]
  const ran = await neapRun(args, envOf(dataDir, { ...env, ...secret }))
  world.checks.record('durable', ran.code !== 0 && `a restore from the repository failed: ${ran.stderr}`)
  if (ran.code !== 0) return leaveNothing(dataDir)
  const neap = await startNeap({ dataDir, env })
  const latencies = startLatencies(world.history)
  try {
    for (const { spot, writers } of told) await compare({ ...world, neap, dataDir, latencies }, spot, writers)
  } finally {
    await neap.stop()
  }
}

/** Tries the newest backup of a branch out. */
export async function drill(world: World, random: Random): Promise<void> {
  world.repository ??= await begin(world)
  const spot = random.pick(standing(world))
  if (!(await awaitSaved(world, [spot], Date.now()))) return
  const { code, stdout, stderr } = await backup(world, 'drill', spot.branch_id)
  world.checks.record('durable', code !== 0 && !spot.leaving && `a drill of ${spot.name}: ${stdout}${stderr}`)
}

/** Has backups made. Returns undefined if that was refused for a fault that lasts. */
async function begin(world: World): Promise<World['repository']> {
  const location = mkdtempSync(join(tmpdir(), 'neap-repository-'))
  const { code, stdout, stderr } = await backup(world, 'init', location)
  world.checks.record('answered', code !== 0 && `backups could not begin: ${stderr}`)
  return code === 0 ? { location, passphrase: stdout.trim() } : undefined
}

export function removeRepository({ repository }: World): void {
  if (repository) rmSync(repository.location, { recursive: true, force: true })
}

/** Waits until the repository has what was committed on these branches before a time, and the catalog as of then. */
async function awaitSaved(world: World, spots: readonly Spot[], since: number): Promise<boolean> {
  const deadline = Date.now() + SAVED_MS
  const isSaved = (time: string | null | undefined) => Date.parse(time ?? '') > since
  let behind = ''
  while (!world.stopping.aborted) {
    const { stdout } = await backup(world, 'status', '--json')
    const { catalog, branches } = JSON.parse(stdout || '{"catalog":null,"branches":[]}') as Saved
    const waiting = spots.filter(
      ({ branch_id, leaving }) =>
        !leaving && !isSaved(branches.find((each) => each.branch_id === branch_id)?.pushed_at),
    )
    behind = [...waiting.map(({ name }) => name), ...(isSaved(catalog?.pushed_at) ? [] : ['the catalog'])].join(', ')
    if (behind === '') return true
    if (Date.now() > deadline) break
    await pause(500)
  }
  world.checks.record('durable', !world.stopping.aborted && `not in the repository after ${SAVED_MS} ms: ${behind}`)
  return false
}

/** The restored branch has what was acknowledged before, and no more than was attempted. */
async function compare(
  restored: World,
  spot: Spot,
  writers: readonly { readonly writer: Spot['writers'][number]; readonly acknowledged: number }[],
): Promise<void> {
  if (spot.leaving) return
  const uri = new URL(spot.uri)
  uri.port = String(restored.neap.ready.proxy_port)
  const client = await enter(restored, { ...spot, uri: String(uri) }, () => {})
  const found = client && (await holdings(client, spot.branch_id))
  await client?.end()
  // It may have been deleted, or exchanged by a restore, meanwhile.
  if (!found || spot.leaving) return
  const wrong = writers.find(({ writer, acknowledged }) => {
    const last = lastOf(found, writer.name)
    return last < acknowledged || last > writer.attempted
  })
  restored.checks.record('durable', wrong && `${spot.name}, restored, is wrong about ${wrong.writer.name}`)
}
