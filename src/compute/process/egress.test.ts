import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readFileSync, readlinkSync } from 'node:fs'
import type { NetworkInterfaceInfo } from 'node:os'
import { test } from 'node:test'
import { freshHost, PG_VERSION, settled } from '../../../test/local_host.ts'
import { egressHelpersOf, kill, until } from '../../../test/processes.ts'
import { filterOf } from './egress.ts'

const at = (address: string) => ({ address }) as NetworkInterfaceInfo
const INTERFACES = { lo: [at('127.0.0.1')], eth0: [at('11.2.0.2'), at('2a00:2::2')] }

test('the filter refuses this machine, then accepts named networks, then refuses private ones', () => {
  const rules = filterOf(['10.0.0.0/16', '169.254.0.0/16', 'fd33::/64'], INTERFACES)
    .split('\n')
    .map((line) => line.trim())
  const order = [
    'ip daddr 169.254.0.0/16 jump refuse',
    'ip daddr 11.2.0.2 jump refuse',
    'ip6 daddr 2a00:2::2 jump refuse',
    'ip daddr 10.0.0.0/16 accept',
    'ip daddr 169.254.0.0/16 accept',
    'ip6 daddr fd33::/64 accept',
    'ip daddr 10.0.0.0/8 jump refuse',
    'ip6 daddr 2a00:2::2/64 jump refuse',
    'ip daddr 0.0.0.0/0 accept',
    'ip6 daddr 2000::/3 accept',
    'jump refuse',
  ].map((rule) => rules.indexOf(rule))
  deepEqual(
    order,
    [...order].sort((x, y) => x - y),
  )
  ok(
    order.every((index) => index >= 0),
    rules.join('\n'),
  )
})

test('a compute with egress has one unprivileged process for it, which ends with the compute', async (t) => {
  const local = freshHost()
  t.after(() => local.dispose())
  const { storage, computes, next } = local
  await storage.prepare(PG_VERSION)
  const missing = await computes.whyNoEgress()
  if (missing !== undefined) return t.skip(missing)
  const branch = local.branch('out')
  await settled(() => storage.create(branch, next()))
  const helpers = () => egressHelpersOf(local.base)
  const network = (pid: number) => readlinkSync(`/proc/${pid}/ns/net`)

  await local.start(branch, next())
  equal(helpers().length, 0)
  await settled(() => computes.stop(branch, next()))

  const { pid } = await local.start(branch, next(), { egress: true })
  equal(helpers().length, 1)
  const status = readFileSync(`/proc/${helpers()[0]}/status`, 'utf8')
  match(status, /^Uid:\t(?!0\t)/m)
  match(status, /^Seccomp:\t2$/m)
  ok(network(pid) !== readlinkSync('/proc/self/ns/net'))
  match(readFileSync(`/proc/${pid}/net/dev`, 'utf8'), /^ *out:/m)
  await settled(() => computes.stop(branch, next()))
  equal(helpers().length, 0)

  await kill((await local.start(branch, next(), { egress: true })).pid)
  await until('the end of the helper', () => helpers().length === 0)
})
