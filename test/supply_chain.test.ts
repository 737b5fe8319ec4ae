import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verdict } from './advisories.ts'
import { billOfMaterials, lockedPackages } from './sbom.ts'

/* The supply chain: the bill of materials equals the lock file, and advisories are reported. */

test('the bill of materials lists exactly the production packages of the lock file', () => {
  const { bomFormat, components, dependencies } = billOfMaterials()
  assert.equal(bomFormat, 'CycloneDX')
  const listed = new Set(components.map(({ group, name, version }) => `${group ? `${group}/` : ''}${name}@${version}`))
  assert.ok(listed.size > 50)
  assert.deepEqual(listed, lockedPackages())
  const of = dependencies.find(({ ref }) => ref.startsWith('neap@'))?.dependsOn ?? []
  assert.ok(of.some((each) => each.startsWith('pg@')) && !of.some((each) => each.startsWith('knip@')))
})

test('a high or critical advisory fails the check; missing advisories are reported in one line', () => {
  const of = (severity: string) => verdict(JSON.stringify({ vulnerabilities: { left: { severity, range: '<1.0.0' } } }))
  for (const severity of ['high', 'critical']) {
    assert.equal(of(severity).fails, true)
    assert.match(of(severity).lines.join('\n'), /^advisories: left <1\.0\.0: (high|critical)/)
  }
  for (const severity of ['low', 'moderate']) assert.equal(of(severity).fails, false)
  for (const output of [JSON.stringify({ message: 'getaddrinfo ENOTFOUND registry.example.org' }), '', 'not JSON']) {
    const { lines, fails } = verdict(output)
    assert.deepEqual([lines.length, fails], [1, false])
    assert.match(lines[0] ?? '', /^advisories: not checked: /)
  }
})
