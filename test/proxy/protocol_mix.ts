import type { Kind, On } from './protocol.ts'

export function mixTests(_on: On, _kind: Kind, _version: number): void {}
