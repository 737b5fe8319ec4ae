import { computeAddress, type ComputeLocation, type ConnectTarget } from '../../catalog/compute.ts'

export type SessionAddress = ComputeLocation

/** The address of the endpoint's compute. undefined when no compute runs. */
export const addressOf = (target: ConnectTarget): SessionAddress | undefined =>
  target.current_state === 'active' ? computeAddress(target) : undefined
