/*
 * Keeps the figures of running computes for charts: once a minute, in one batch. sampling.ts says what is read of each.
 */
import { computeAddress } from '../catalog/compute.ts'
import { addSamples, type ComputeSample, listSampled, type SampledCompute } from '../catalog/compute_history.ts'
import { LOOK_TIMEOUT_MS, withAdminSession } from '../compute_admin/session.ts'
import { type ComputeStatistics, readStatistics } from '../compute_admin/statistics.ts'
import type { WorkerContext } from '../context.ts'
import { createEventLoop } from '../event_loop.ts'
import { inTurn } from '../in_turn.ts'
import type { Loop } from './periodic.ts'
import { cpusUsed, isWorking, type KernelReading, type KnownCompute, sampleOf } from './sampling.ts'

const MINUTE_MS = 60_000
/**
 * How long a compute that does not answer keeps the next one from being asked, and the time for all of a round: code in
 * computes can make each last.
 */
const PATIENCE_MS = 50
const ASKING_MS = 20_000
/** How long a compute that did not answer is not asked again. */
const SILENT_MS = 10 * MINUTE_MS

const LOOK = { purpose: 'history', timeoutMs: LOOK_TIMEOUT_MS }

/** Starts the loop for the computes of this host. */
export function startHistoryLoop(context: WorkerContext): Loop {
  const takeSamples = createSampler(context)
  const { log } = context
  const loop = createEventLoop({
    async look() {
      await takeSamples()
      return MINUTE_MS - (Date.now() % MINUTE_MS)
    },
    onError: (error) => log.warn({ err: error }, 'could not keep the figures of computes'),
    retry: { firstMs: MINUTE_MS, maxMs: MINUTE_MS },
  })
  loop.wake()
  return loop
}

/** Returns a function that takes and keeps a sample of each compute that runs on this host. */
export function createSampler(context: WorkerContext): () => Promise<void> {
  const { catalog, hostId } = context
  let known = new Map<string, KnownCompute>()

  return async () => {
    const computes = await listSampled(catalog, hostId)
    const looks = await Promise.all(computes.map((compute) => lookAt(context, compute, known.get(compute.compute_id))))
    const answers = await askAll(context, looks)
    known = new Map(looks.map((look) => [look.compute.compute_id, nowKnown(look, answers)]))
    await addSamples(
      catalog,
      looks.map((look) => toSample(look, answers)),
    )
  }
}

/** A compute as the kernel sees it, and whether Postgres is to be asked. */
interface Look {
  readonly compute: SampledCompute
  readonly before: KnownCompute | undefined
  readonly reading: KernelReading | undefined
  readonly atMs: number
  readonly cpus: number | null
  readonly asks: boolean
}

async function lookAt({ computes }: WorkerContext, compute: SampledCompute, before?: KnownCompute): Promise<Look> {
  // Where computes are not limited, no counter is kept for them.
  const reading = await computes.readUse(compute.compute_id).catch(() => undefined)
  const atMs = performance.now()
  const cpus = cpusUsed(compute, reading, before, atMs)
  return { compute, before, reading, atMs, cpus, asks: isWorking(compute, cpus, before, atMs) }
}

/**
 * Asks those computes that work, in turn, since each session costs a login, until the time is over. Returns their
 * answers, by compute id.
 */
async function askAll(
  context: WorkerContext,
  looks: readonly Look[],
): Promise<ReadonlyMap<string, ComputeStatistics | 'silent'>> {
  const answers = new Map<string, ComputeStatistics | 'silent'>()
  const until = performance.now() + ASKING_MS
  const askOne = async ({ compute }: Look): Promise<void> =>
    void answers.set(compute.compute_id, await ask(context, compute))
  const waiting = looks.filter(({ asks }) => asks)
  await inTurn(waiting, askOne, PATIENCE_MS, () => performance.now() < until)
  return answers
}

async function ask({ secrets, log }: WorkerContext, compute: SampledCompute): Promise<ComputeStatistics | 'silent'> {
  const address = computeAddress(compute)
  try {
    if (!address) return 'silent'
    return await withAdminSession(address, secrets.stores, LOOK, readStatistics)
  } catch (error) {
    log.debug({ err: error, compute: compute.compute_id }, 'could not read the statistics of a compute')
    return 'silent'
  }
}

type Answers = Awaited<ReturnType<typeof askAll>>

function nowKnown({ compute, before, reading, atMs }: Look, answers: Answers): KnownCompute {
  const answer = answers.get(compute.compute_id)
  return {
    atMs,
    cpuMicroseconds: reading?.cpuMicroseconds,
    statistics: answer === 'silent' ? undefined : (answer ?? before?.statistics),
    lastActive: answer === undefined ? (before?.lastActive ?? null) : compute.last_active,
    silentUntil: answer === 'silent' ? atMs + SILENT_MS : (before?.silentUntil ?? 0),
  }
}

function toSample({ compute, before, reading, cpus, asks }: Look, answers: Answers): ComputeSample {
  const answer = answers.get(compute.compute_id)
  // Unasked, it has the sessions that it had; asked without an answer, they are not known.
  const statistics = answer === 'silent' || (asks && !answer) ? undefined : (answer ?? before?.statistics)
  return sampleOf(compute, cpus, reading, before?.statistics, statistics)
}
