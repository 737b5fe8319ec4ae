import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { AppError, ERRORS } from '../errors.ts'
import { createCensusMetrics } from './catalog_metrics.ts'
import { createOperationMetrics } from './operation_metrics.ts'
import { createProbes, startProbeServer } from './probes.ts'
import { createReadiness } from './readiness.ts'

const never = () => new Promise<never>(() => {})

test('a probe server takes another port when its own is in use', async () => {
  const [first, second] = ['first', 'second'].map((part) => {
    const registry = new Registry()
    return createProbes(part, registry, createReadiness(registry, {}))
  })
  assert.ok(first && second)
  const one = await startProbeServer(first, 0)
  const other = await startProbeServer(second, one.port)
  try {
    assert.notEqual(other.port, one.port)
    for (const [{ port }, part] of [
      [one, 'first'],
      [other, 'second'],
    ] as const) {
      const response = await fetch(`http://127.0.0.1:${port}/readyz?verbose`)
      assert.deepEqual(await response.json(), { status: 'ready', part })
    }
  } finally {
    await Promise.all([one.stop(), other.stop()])
  }
})

test('readiness does not wait for a check that hangs, and does not start it again', async () => {
  let asked = 0
  const checks = {
    hangs: () => {
      asked += 1
      return never()
    },
    fails: () => Promise.reject(new Error('no such file: /var/lib/neap/secret')),
    tells: () => Promise.reject(new AppError('UNAVAILABLE')),
    misses: () => 'it does not hear',
    holds: () => undefined,
  }
  const registry = new Registry()
  const missing = createReadiness(registry, checks, 5)
  const said = {
    hangs: 'no answer within 5 ms',
    fails: 'it cannot be asked',
    tells: ERRORS.UNAVAILABLE.text,
    misses: 'it does not hear',
  }
  assert.deepEqual(await missing(), said)
  assert.deepEqual(await missing(), said)
  assert.equal(asked, 1)
  assert.match(await registry.metrics(), /^neap_ready 0$/m)
})

test('concurrent scrapes share one catalog query', async () => {
  let asked = 0
  const registry = new Registry()
  createCensusMetrics(registry, async () => {
    asked += 1
    return {
      operations: { scheduling: 3, running: 1 },
      queueAge: 0.5,
      endpoints: { active: 1, idle: 2, init: 0, disabled: 0 },
      capacity: { here: 32 },
      disk: { here: 100 },
      diskFree: { here: 40 },
      branchBytes: { here: 10 },
      clones: { here: 1 },
      used: { here: 1.25 },
      storage: [{ labels: { host: 'here', mode: 'image', kind: 'real' }, value: 7 }],
      imageBytes: { here: 50 },
      imageGrowable: { here: 20 },
      imageShort: { here: 0 },
    }
  })
  const [one, other] = await Promise.all([registry.metrics(), registry.metrics()])
  assert.equal(one, other)
  assert.match(one, /^neap_operations_unfinished\{status="scheduling"\} 3$/m)
  assert.match(one, /^neap_operation_queue_age_seconds 0.5$/m)
  assert.match(one, /^neap_host_storage_bytes\{host="here",mode="image",kind="real"\} 7$/m)
  assert.match(one, /^neap_host_used_cu\{host="here"\} 1.25$/m)
  assert.equal(asked, 1)
})

test('a scrape without the catalog succeeds, without the figures of the catalog', async () => {
  const registry = new Registry()
  createCensusMetrics(registry, () => Promise.reject(new Error('it is away')))
  assert.doesNotMatch(await registry.metrics(), /^neap_(endpoints|operation).* \d/m)
})

test('failed operations are counted by error code or by the reason of the engine', async () => {
  const registry = new Registry()
  const metrics = createOperationMetrics(registry, ['start_compute'])
  const failures = [
    [{ error: 'dependency failed: create_branch 1: no room' }, 'dependency'],
    [{ error: 'not done within 60 s; last: refused' }, 'deadline'],
    [{ error: 'given up after 20 attempts at started' }, 'attempts'],
    [{ error: 'no room', cause: Object.assign(new Error('no room'), { code: 'ENOSPC' }) }, 'ENOSPC'],
    [{ error: 'claimed elsewhere' }, 'unknown'],
  ] as const
  for (const [failure] of failures) metrics.ended('start_compute', 1, failure)
  const text = await registry.metrics()
  for (const [, code] of failures)
    assert.match(
      text,
      new RegExp(`^neap_operations_total\\{action="start_compute",status="failed",code="${code}"\\} 1$`, 'm'),
    )
  assert.match(text, /^neap_operations_total\{action="start_compute",status="finished",code=""\} 0$/m)
})
