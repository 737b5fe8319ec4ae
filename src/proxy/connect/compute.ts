import { computeAddress, type ComputeLocation, type ConnectTarget } from '../../catalog/compute.ts'

/** The address of the endpoint's compute. undefined when no compute runs. */
export const addressOf = (target: ConnectTarget): ComputeLocation | undefined =>
  target.current_state === 'active' ? computeAddress(target) : undefined
