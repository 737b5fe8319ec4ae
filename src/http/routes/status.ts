import { Type } from 'typebox'
import { listEndpointsWithCompute } from '../../catalog/endpoint.ts'
import { route } from '../route.ts'

const Compute = Type.Object(
  {
    endpoint_id: Type.String(),
    branch_id: Type.String(),
    project_id: Type.String(),
    state: Type.String(),
    pid: Type.Optional(Type.Integer()),
    socket_dir: Type.Optional(Type.String()),
    port: Type.Optional(Type.Integer()),
    started_at: Type.Optional(Type.String({ format: 'date-time' })),
  },
  { $id: 'Compute' },
)

export const getStatus = route('GET /status', {
  summary: 'What runs on this Neap: of the account, or of all where its administrator asks',
  tag: 'Neap',
  scope: 'admin',
  returns: Type.Object({ computes: Type.Array(Compute) }),
  errors: [],
}).handle(async (_request, { db, caller }) => {
  // Without a key the request came over the 0600 admin socket.
  const administers = caller.apiKeyId === undefined
  const endpoints = await listEndpointsWithCompute(db)
  return {
    computes: endpoints
      .filter((endpoint) => administers || endpoint.account_id === caller.account.id)
      .map((endpoint) => ({
        endpoint_id: endpoint.id,
        branch_id: endpoint.branch_id,
        project_id: endpoint.project_id,
        state: endpoint.pending_state
          ? `${endpoint.current_state} → ${endpoint.pending_state}`
          : endpoint.current_state,
        ...(endpoint.compute_pid !== null && { pid: endpoint.compute_pid }),
        ...(endpoint.compute_host !== null && { socket_dir: endpoint.compute_host }),
        ...(endpoint.compute_port !== null && { port: endpoint.compute_port }),
        ...(endpoint.started_at !== null && { started_at: endpoint.started_at }),
      })),
  }
})
