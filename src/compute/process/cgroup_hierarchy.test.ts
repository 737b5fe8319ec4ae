import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { hierarchiesIn } from './cgroup_hierarchy.ts'

const itself = (_mountPoint: string, own: string): string => own
const CONTROLLERS = 'cpuset cpu io memory pids\n'

test('version 2 under systemd: one hierarchy with the controllers of the delegated group', () => {
  const found = hierarchiesIn(
    '30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n',
    '0::/user.slice/user-1000.slice/user@1000.service/app.slice/neap.scope\n',
    {
      baseOf: (_mountPoint, own) => own.slice(0, own.indexOf('/app.slice')),
      controllersOf: (mountPoint, group) => (`${mountPoint}${group}`.endsWith('@1000.service') ? CONTROLLERS : ''),
    },
  )
  deepEqual(found, [
    {
      version: 2,
      mountPoint: '/sys/fs/cgroup',
      base: '/user.slice/user-1000.slice/user@1000.service',
      controllers: ['cpu', 'io', 'memory', 'pids', 'cpuacct', 'pressure'],
    },
  ])
})

test('version 1 with shared controllers, in a container that sees only its own groups', () => {
  const found = hierarchiesIn(
    [
      '31 30 0:27 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:9 - cgroup cgroup rw,cpu,cpuacct',
      '32 30 0:28 /docker/abc /sys/fs/cgroup/memory ro,nosuid master:10 - cgroup cgroup rw,memory',
      '33 30 0:29 /docker/abc /sys/fs/cgroup/systemd ro,nosuid master:11 - cgroup cgroup rw,xattr,name=systemd',
    ].join('\n'),
    '3:cpu,cpuacct:/docker/abc\n2:memory:/docker/abc/inner\n1:name=systemd:/docker/abc\n',
    { baseOf: itself, controllersOf: () => '' },
  )
  deepEqual(found, [
    { version: 1, mountPoint: '/sys/fs/cgroup/cpu,cpuacct', base: '/', controllers: ['cpu', 'cpuacct'] },
    { version: 1, mountPoint: '/sys/fs/cgroup/memory', base: '/inner', controllers: ['memory'] },
  ])
})

test('version 1 with a hierarchy of version 2 beside it, which only measures pressure', () => {
  const found = hierarchiesIn(
    [
      '31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu',
      '40 30 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw',
    ].join('\n'),
    '1:cpu:/\n0::/\n',
    { baseOf: itself, controllersOf: () => '\n' },
  )
  deepEqual(
    found.map(({ version, controllers }) => ({ version, controllers })),
    [
      { version: 1, controllers: ['cpu'] },
      { version: 2, controllers: ['pressure'] },
    ],
  )
})

test('groups outside of the mount, or of the own namespace, are not used', () => {
  const mount = (root: string) => `31 30 0:27 ${root} /sys/fs/cgroup rw - cgroup2 cgroup2 rw`
  deepEqual(hierarchiesIn(mount('/a'), '0::/b', { baseOf: itself, controllersOf: () => CONTROLLERS }), [])
  deepEqual(hierarchiesIn(mount('/'), '0::/../b', { baseOf: itself, controllersOf: () => CONTROLLERS }), [])
})
