import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:net'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { query } from '../../clients.ts'
import { type Neap, startNeap } from '../../neap.ts'
import { egressHelpersOf, kill, until } from '../../processes.ts'
import { computeOf, firstPlace, newProject, type Place, settled, suspend } from '../../project.ts'
import { enableEgress, openShell, reached } from './compute.ts'
import { CLOSED, MACHINE, MACHINE_V6, NAMED, NAMED_NETWORK, NAMES, PORT, PUBLIC } from './places.ts'

/*
 * The addresses that a compute reaches when its project allows egress. Run by egress.test.ts, in simulated networks.
 * All of these were reachable with NEAP_COMPUTE_NETWORK=host, formerly the only way to allow egress;
 * NEAP_TEST_NETWORK=host shows that.
 */

const OPEN = [...PUBLIC, ...NAMED]
const OWN = ['127.0.0.1', MACHINE.address, '::1', MACHINE_V6.address]

let neap: Neap
let place: Place
let server: Server
let here = 0

before(async () => {
  const network = process.env['NEAP_TEST_NETWORK']
  neap = await startNeap({
    env: { NEAP_EGRESS_ALLOW: NAMED_NETWORK, ...(network && { NEAP_COMPUTE_NETWORK: network }) },
  })
  place = await firstPlace(neap)
  await query(neap, place.uri, 'select 1')
  server = createServer((socket) => {
    here += 1
    socket.end()
  }).listen(PORT, '::')
  await once(server, 'listening')
})
after(async () => {
  server?.close()
  await neap?.stop()
})

const helpers = () => egressHelpersOf(neap.ready.data_dir)

void test('a compute reaches no address unless its project allows egress', async () => {
  const code = await openShell(neap, place)
  assert.deepEqual(await reached(() => code.connect([...OPEN, ...CLOSED, ...OWN])), [])
  assert.deepEqual([here, helpers().length], [0, 0])
  await code.end()
})

void test('enabling egress restarts a running compute, which then reaches only public and named networks', async () => {
  const earlier = await computeOf(neap, place)
  const project = await enableEgress(neap, place, true)
  assert.deepEqual([project.settings.enable_egress, project.egress_missing], [true, undefined])
  await query(neap, place.uri, 'select 1')
  assert.notEqual((await computeOf(neap, place))?.pid, earlier?.pid)
  const code = await openShell(neap, place)
  assert.deepEqual(await reached(() => code.connect([...OPEN, ...CLOSED, ...OWN])), OPEN)
  assert.equal(here, 0)
  await code.end()
})

void test('a socket bound to the device reaches no further address', async () => {
  const code = await openShell(neap, place)
  const targets = [...CLOSED, ...OWN].filter((address) => !address.includes(':'))
  assert.deepEqual(await reached(() => code.connectByDevice([...targets, NAMED[0] as string])), NAMED)
  assert.deepEqual(await reached(() => code.sendByDevice([...targets, NAMED[0] as string])), NAMED)
  assert.equal(here, 0)
  await code.end()
})

void test('names are resolved, and a name with a private address is unreachable', async () => {
  const code = await openShell(neap, place)
  for (const [name, address] of Object.entries(NAMES)) {
    assert.match(await code.run(`getent ahostsv4 ${name} || true`), new RegExp(`^${address} `, 'm'))
    assert.deepEqual(await reached(() => code.connect([name])), OPEN.includes(address) ? [address] : [])
  }
  await code.end()
})

void test('a subscription made by SQL reaches no further address', async () => {
  await query(neap, place.uri, 'create table if not exists kept (n int)')
  const attempts = [...OPEN, ...CLOSED, ...OWN]
  const hits = await reached(async () => {
    for (const host of attempts)
      await assert.rejects(
        query(
          neap,
          place.uri,
          `create subscription s connection 'host=${host} port=${PORT} user=x password=x dbname=x connect_timeout=5'
             publication p`,
        ),
        /could not connect to the publisher/,
        host,
      )
  })
  // libpq first connects with TLS, then again without.
  assert.deepEqual([...new Set(hits)], OPEN)
  assert.equal(here, 0)
})

void test('a compute cannot change its filter or its network', async () => {
  const code = await openShell(neap, place)
  for (const command of ['nft flush ruleset', 'ip route add 10.30.0.0/16 dev out', 'ip link set out down'])
    assert.notEqual(await code.run(`${command} && echo done || true`), 'done', command)
  assert.deepEqual(await reached(() => code.connect(CLOSED)), [])
  await code.end()
})

void test('the computes of another project reach no address', async () => {
  const other = await newProject(neap)
  await query(neap, other.uri, 'select 1')
  const code = await openShell(neap, other)
  assert.deepEqual(await reached(() => code.connect([...OPEN, ...CLOSED, ...OWN])), [])
  assert.equal(here, 0)
  await code.end()
  await suspend(neap, other)
})

void test('the first compute of a project that is created with egress reaches the allowed addresses', async () => {
  const other = await newProject(neap, { settings: { enable_egress: true } })
  await query(neap, other.uri, 'select 1')
  const code = await openShell(neap, other)
  assert.deepEqual(await reached(() => code.connect([...OPEN, ...CLOSED, ...OWN])), OPEN)
  await code.end()
  await suspend(neap, other)
})

void test('the egress process ends with its compute, and survives a restart of the worker', async () => {
  assert.equal(helpers().length, 1)
  await suspend(neap, place)
  assert.equal(helpers().length, 0)
  await query(neap, place.uri, 'select 1')
  const [helper] = helpers()
  await kill(neap.part('worker'))
  await until('the next worker', () => neap.part('worker'))
  await query(neap, place.uri, 'select 1')
  // The next worker starts and stops a helper to check whether egress is available.
  await until('that helper alone', () => helpers().join() === String(helper))
  const { pid } = (await computeOf(neap, place)) ?? {}
  await kill(pid)
  await until('the end of the helper', () => helpers().length === 0)
  await query(neap, place.uri, 'select 1')
  assert.equal(helpers().length, 1)
})

void test('a compute ends when its egress process is killed, and has egress after its next start', async () => {
  await kill(...helpers())
  // Postgres, its parent, treats that as the crash of a child process.
  await settled(neap, place, 'idle')
  await query(neap, place.uri, 'select 1')
  const code = await openShell(neap, place)
  assert.deepEqual(await reached(() => code.connect(OPEN)), OPEN)
  await code.end()
})

void test('disabling egress closes it for a running compute', async () => {
  await enableEgress(neap, place, false)
  await query(neap, place.uri, 'select 1')
  const code = await openShell(neap, place)
  assert.deepEqual(await reached(() => code.connect(OPEN)), [])
  assert.equal(helpers().length, 0)
  await code.end()
})
