import pg from 'pg'
import { superuser } from '../admin.ts'
import { connect } from '../clients.ts'
import type { Place } from '../project.ts'
import type { Random } from '../random.ts'
import { awaitEnds, pause, request, type World } from './world.ts'

const CONNECTIONS = 100
const GUESSES = 150
const LOADS = 2

/** What code in a compute does, as a shell: it forks, fills what it can write beside its data, kills, and puts links in the place of its socket. */
const CODE = [
  'i=0; while [ $i -lt 2000 ]; do sleep 3 & i=$((i+1)); done',
  'dd if=/dev/zero of=/tmp/full bs=1M count=100; dd if=/dev/zero of=/dev/shm/full bs=1M count=100; rm -f /tmp/full /dev/shm/full',
  'kill -9 -1; for pid in $(seq 200 400); do kill -9 $pid; done',
  'for directory in $(dirname $PWD/../../*); do ln -sfn / $directory/link; done; ln -sfn /etc/passwd postmaster.opts',
  'for port in 5432 7070 7071; do bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"; done',
]

/** A tenant in a project of his own attacks with a key, with SQL and with code in his compute, all at once: no other branch is disturbed. */
export async function hostileTenant(world: World, random: Random): Promise<void> {
  const made = await request(world, 'POST', '/projects', { project: { name: 'hostile' } })
  await awaitEnds(world, made)
  const { project, branch, endpoints, connection_uris } = made.body as unknown as {
    project: { id: string }
    branch: { id: string }
    endpoints: { id: string }[]
    connection_uris: { connection_uri: string }[]
  }
  const uri = connection_uris[0]?.connection_uri ?? ''
  const place = { project_id: project.id, branch_id: branch.id, endpoint_id: endpoints[0]?.id ?? '', uri }
  // What he does to his own compute is his own.
  const ended = world.history.disrupt('a hostile tenant', ['sessions', 'connects'], place.branch_id)
  const over = pause(random.between(2_000, 5_000))
  const attacks = [
    ...CODE.map((script) => runCode(world, place, script)),
    ...Array.from({ length: LOADS }, () => load(world, place, over)),
    ...Array.from({ length: CONNECTIONS }, () => hold(world, place, over)),
    guess(world, place),
  ]
  await Promise.all(attacks.map((attack) => attack.catch(() => {})))
  await awaitEnds(world, await request(world, 'DELETE', `/projects/${project.id}`))
  ended()
}

async function runCode({ neap }: World, place: Place, script: string): Promise<void> {
  const session = await superuser(neap, place)
  try {
    await session.query(`set statement_timeout = '10s'`)
    await session.query(`copy (select 1) to program '( ${script.replaceAll("'", "''")} ) > /dev/null 2>&1; true'`)
  } finally {
    await session.end().catch(() => {})
  }
}

async function load({ neap }: World, { uri }: Place, over: Promise<void>): Promise<void> {
  const client = await connect(neap, uri)
  const work = client.query(`select sum(sqrt(n)) from generate_series(1, 1e9) n`).catch(() => {})
  await over
  await client.end()
  await work
}

async function hold({ neap }: World, { uri }: Place, over: Promise<void>): Promise<void> {
  const client = await connect(neap, uri)
  await over
  await client.end()
}

/** Wrong passwords, as fast as they are taken. */
async function guess({ neap }: World, { uri }: Place): Promise<void> {
  const wrong = new URL(uri)
  wrong.password = 'guess'
  await Promise.all(
    Array.from({ length: GUESSES }, async () => {
      const client = await connect(neap, wrong.href).catch(() => undefined)
      if (client instanceof pg.Client) await client.end()
    }),
  )
}
