import { Counter, Histogram, type Registry } from 'prom-client'

export interface AnsweredRequest {
  readonly method: string
  /** The route with its placeholders, or `none`. */
  readonly route: string
  readonly status: number
  readonly seconds: number
  /** The response lasts as long as its client stays: its duration is not observed. */
  readonly endless: boolean
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

/** Counts the requests that the API has answered, and observes their durations. */
export function createHttpMetrics(registry: Registry): (answered: AnsweredRequest) => void {
  const requests = new Counter({
    name: 'neap_http_requests_total',
    help: 'Requests that the API has answered, by method, route and status.',
    labelNames: ['method', 'route', 'status'],
    registers: [registry],
  })
  const durations = new Histogram({
    name: 'neap_http_request_duration_seconds',
    help: 'From the head of a request to the end of its answer, by method and route; streams are left out.',
    labelNames: ['method', 'route'],
    buckets: SECONDS,
    registers: [registry],
  })
  return ({ method, route, status, seconds, endless }) => {
    requests.inc({ method, route, status })
    if (!endless) durations.observe({ method, route }, seconds)
  }
}
