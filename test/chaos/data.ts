import type pg from 'pg'
import { connect } from '../clients.ts'
import type { Random } from '../random.ts'
import { pause, postmasterOf, type Spot, type World } from './world.ts'

/*
 * The data that clients write: transfers between accounts, each recorded as an entry in its writer's sequence. The sum
 * of the accounts is constant, a sequence has no gap, and every entry names the branch it was written to.
 */

const ACCOUNTS = 500
const BALANCE = 1_000

export const SCHEMA = `
  create table account (id int primary key, balance bigint not null);
  insert into account select id, ${BALANCE} from generate_series(1, ${ACCOUNTS}) id;
  create table entry (writer text, number int, branch text not null, primary key (writer, number));`

export interface Move {
  readonly debit: number
  readonly credit: number
  readonly amount: number
}

export const someMove = (random: Random): Move => ({
  // The lower account always pays: a single lock order prevents deadlocks.
  debit: random.between(1, ACCOUNTS / 2),
  credit: random.between(ACCOUNTS / 2 + 1, ACCOUNTS),
  amount: random.between(1, 100),
})

/** Runs one transfer in a transaction, without the commit. */
export async function transfer(client: pg.Client, writer: string, number: number, branch: string, move: Move) {
  await client.query('begin')
  await client.query('update account set balance = balance - $1 where id = $2', [move.amount, move.debit])
  await client.query('update account set balance = balance + $1 where id = $2', [move.amount, move.credit])
  await client.query('insert into entry values ($1, $2, $3)', [writer, number, branch])
}

export interface Sequence {
  readonly writer: string
  readonly last: number
  readonly count: number
}

export interface Holdings {
  readonly sum: string
  readonly sequences: readonly Sequence[]
  /** The branches named in its entries: itself and its ancestors. */
  readonly branches: readonly string[]
  /** The hash of all entries that were written to other branches. */
  readonly inherited: string
}

/** The contents of a branch, in one snapshot. */
export async function holdings(client: pg.Client, branch: string): Promise<Holdings> {
  const { rows } = await client.query<Holdings>(
    `select (select sum(balance) from account)::text as sum,
            (select coalesce(json_agg(s), '[]') from (
               select writer, max(number) as last, count(*)::int as count
                 from entry group by writer order by writer) s) as sequences,
            (select coalesce(json_agg(distinct branch), '[]') from entry) as branches,
            (select md5(coalesce(string_agg(writer || ' ' || number, ',' order by writer, number), ''))
               from entry where branch <> $1) as inherited`,
    [branch],
  )
  return rows[0] as Holdings
}

export const EXPECTED_SUM = String(ACCOUNTS * BALANCE)

/** Violations visible in the contents alone, regardless of what was written. */
export function flawOf({ sum, sequences }: Holdings): { balanced: string | undefined; durable: string | undefined } {
  const gap = sequences.find(({ last, count }) => last !== count)
  return {
    balanced: sum === EXPECTED_SUM ? undefined : `the sum of the accounts is ${sum} rather than ${EXPECTED_SUM}`,
    durable: gap && `${gap.writer} has ${gap.count} entries up to number ${gap.last}`,
  }
}

/**
 * Connects, and retries until admitted; every refusal needs an excuse in the history. Returns undefined when the branch
 * is being deleted or the run ends.
 */
export async function enter(
  world: World,
  spot: Spot,
  lost: (error: Error) => void,
  { pooled = false } = {},
): Promise<pg.Client | undefined> {
  const { history, checks, latencies } = world
  const uri = pooled ? spot.uri.replace(/ep-[a-z0-9-]+/, '$&-pooler') : spot.uri
  while (!spot.leaving && !world.stopping.aborted) {
    const sleeps = postmasterOf(world, spot) === undefined
    const since = Date.now()
    try {
      const client = await connect(world.neap, uri, { lost, connectionTimeoutMillis: 90_000 })
      checks.record('admitted', undefined)
      // Only its first query assigns a server session to a pooled client.
      if (sleeps && !pooled) latencies.note('wake', since)
      if (!spot.leaving) return client
      await client.end().catch(() => {})
    } catch (error) {
      const { message } = error as Error
      if (spot.leaving) return undefined
      const excuse = history.excuse('connects', since, Date.now(), spot.branch_id)
      checks.record('admitted', !excuse && `a connection to ${spot.name} was refused: ${message}`)
      await pause(100)
    }
  }
  return undefined
}
