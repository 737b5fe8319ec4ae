import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { conninfo, query } from '../clients.ts'
import type { Neap } from '../neap.ts'
import { until } from '../processes.ts'

/*
 * Data with a verifiable invariant: each transfer between accounts is recorded, so that the sum of balances is constant
 * and every balance follows from the transfers; rows that are never updated have a hash. A copy that mixes two points
 * in time breaks one of these.
 */

export const ACCOUNTS = 100_000
const BALANCE = 1_000

const partition = (part: number) =>
  `create table account_${part} partition of account for values with (modulus 8, remainder ${part});`

/** Eight partitions, so that a copy reads some of the pages early and some late. */
const SETUP = `
  create table account (id int primary key, balance bigint not null) partition by hash (id);
  ${Array.from({ length: 8 }, (_, part) => partition(part)).join('\n')}
  insert into account select id, ${BALANCE} from generate_series(1, ${ACCOUNTS}) id;
  create table transfer (id bigint generated always as identity primary key, debit int, credit int, amount int);
  create table frozen (id int primary key, payload text);
  insert into frozen select id, repeat(md5(id::text), 20) from generate_series(1, ${ACCOUNTS}) id;`

// The lower account always pays: a single lock order prevents deadlocks.
const TRANSFER = `
\\set one random(1, ${ACCOUNTS})
\\set other random(1, ${ACCOUNTS})
\\set debit least(:one, :other)
\\set credit greatest(:one, :other)
\\set amount random(1, 100)
begin;
update account set balance = balance - :amount where id = :debit;
update account set balance = balance + :amount where id = :credit;
insert into transfer (debit, credit, amount) values (:debit, :credit, :amount);
end;
`

export async function openBank(neap: Neap, uri: string): Promise<void> {
  await query(neap, uri, SETUP)
}

export interface Audit {
  /** True when the sum is unchanged and every balance follows from the transfers. */
  readonly consistent: boolean
  readonly transfers: number
  readonly frozen: string
}

/** Checks a bank by full table scans and returns its contents. */
export async function audit(neap: Neap, uri: string): Promise<Audit> {
  const [row] = await query<Audit>(
    neap,
    uri,
    `with moved as (
       select id, sum(change) as change from (
         select debit as id, -amount as change from transfer union all select credit, amount from transfer) both_sides
        group by id)
     select (select count(*) = ${ACCOUNTS} and sum(balance) = ${ACCOUNTS}::bigint * ${BALANCE} from account)
              and not exists (select from account full join moved using (id)
                               where balance is distinct from ${BALANCE} + coalesce(change, 0)) as consistent,
            (select count(*)::int from transfer) as transfers,
            (select md5(string_agg(id || payload, ',' order by id)) from frozen) as frozen`,
  )
  if (!row) throw new Error('the audit answered no row')
  return row
}

export interface Load {
  /** The number of transfers made. */
  made(): Promise<number>
  /** Stops it. Returns its exit code if it had ended by itself, which is an error. Idempotent. */
  stop(): Promise<number | undefined>
}

/** Runs transfers with pgbench in several sessions until stopped. Resolves when transfers are being made. */
export async function startTransfers(neap: Neap, uri: string): Promise<Load> {
  const dir = mkdtempSync(join(tmpdir(), 'neap-bank-'))
  const script = join(dir, 'transfer.sql')
  writeFileSync(script, TRANSFER)
  const args = ['-n', '-f', script, '-c', '8', '-T', '600', '-M', 'prepared', conninfo(uri)]
  const pgbench: ChildProcess = spawn('pgbench', args, { stdio: 'ignore' })
  const ended = once(pgbench, 'exit').then(([code]: unknown[]) => code as number)
  const made = async () =>
    (await query<{ made: number }>(neap, uri, 'select count(*)::int as made from transfer'))[0]?.made ?? 0
  const begun = await made()
  await until('transfers', async () => (await made()) > begun + 100)
  return {
    made,
    async stop() {
      const stopped = pgbench.exitCode === null && pgbench.kill('SIGKILL')
      const code = await ended
      rmSync(dir, { recursive: true, force: true })
      return stopped ? undefined : code
    },
  }
}
