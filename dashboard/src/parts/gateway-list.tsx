/** The gateways that share a store, one line each. */
import type { ListedGateway } from '../../../src/core/fleet.ts'
import { age, count, duration } from '../format.ts'
import { overviewWords as w } from '../words/overview.ts'

const TONES = { ok: 'ok', degraded: 'warn', draining: 'dim' } as const

const GatewayLine = ({ gateway }: { readonly gateway: ListedGateway }) => {
  const { node, version, status, problems, lag_ms, requests_in_progress, processes, seen_ms } = gateway
  const { answered, of } = processes
  return (
    <li class="overview-gateway">
      <span class="provider-name" title={node}>
        {node}
      </span>
      <span class={TONES[status]} title={w.gateways.seen(age(seen_ms))}>
        {[w.gateways.states[status], ...problems].join(' · ')}
      </span>
      <span>{version}</span>
      <span class="num end">{duration(lag_ms)}</span>
      <span class="num end">{answered === of ? count(of) : w.gateways.processes(answered, of)}</span>
      <span class="num end">{count(requests_in_progress)}</span>
    </li>
  )
}

export const GatewayList = ({ gateways }: { readonly gateways: readonly ListedGateway[] }) => (
  <ul class="overview-gateways">
    <li class="overview-gateway overview-heads">
      <span>{w.gateways.name}</span>
      <span>{w.gateways.state}</span>
      <span>{w.gateways.version}</span>
      <span class="end">{w.gateways.lag}</span>
      <span class="end">{w.gateways.count}</span>
      <span class="end">{w.gateways.requests}</span>
    </li>
    {gateways.map((one) => (
      <GatewayLine key={one.node} gateway={one} />
    ))}
  </ul>
)
