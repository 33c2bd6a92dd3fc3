/** Shadows of routes: what all processes have compared since they started. */
import type { z } from 'zod'

import { good } from '../../../core/failure.ts'
import { formatDollars } from '../../../core/money.ts'
import type { Route, ShadowRules } from '../../../core/route.ts'
import type { LeftOut, ShadowCounts, ShadowPair, ShadowSide, ShadowState, SideSums } from '../../../core/shadow.ts'
import { joinedCounts, SHADOW_TEAM, shadowName } from '../../../policy/routing/shadow.ts'
import { type SHADOW, SHADOWS } from '../../answers/shadows.ts'
import { askProcesses } from '../processes.ts'
import { row } from '../row.ts'

const RECENT = 20

const meansOf = ({ answered, counted, priced }: ShadowCounts, sums: SideSums) => {
  const mean = (sum: number, of: number) => (of === 0 ? null : Math.round((10 * sum) / of) / 10)
  return {
    first_content_ms: mean(sums.firstContentMs, sums.timed),
    total_ms: mean(sums.totalMs, answered),
    input_tokens: mean(sums.inputTokens, counted),
    output_tokens: mean(sums.outputTokens, counted),
    characters: mean(sums.characters, answered),
    cost: priced === 0 ? null : formatDollars(sums.cost),
  }
}

const sideShown = (side: ShadowSide) => ({
  provider: side.provider,
  model: side.model,
  status: side.status,
  failure: side.failure,
  first_content_ms: side.firstContentMs === null ? null : Math.round(side.firstContentMs),
  total_ms: Math.round(side.totalMs),
  input_tokens: side.inputTokens,
  output_tokens: side.outputTokens,
  estimated: side.isEstimated,
  cost: side.cost === null ? null : formatDollars(side.cost),
  finish: side.finish,
  tools: [...side.tools],
  characters: side.characters,
})

const pairShown = ({ id, copy, at, style, stream, own, other }: ShadowPair) => ({
  ...{ id, copy, at: new Date(at).toISOString(), style, stream },
  client: sideShown(own),
  shadow: sideShown(other),
})

const shown = (
  { name }: Route,
  { target, percent, perMinute }: ShadowRules,
  states: readonly ShadowState[],
): z.input<typeof SHADOW> => {
  const counts = joinedCounts(states.map((one) => one.counts))
  const recent = states.flatMap((one) => one.recent).toSorted((a, b) => b.at - a.at)
  return {
    object: 'shadow',
    route: name,
    target: target.model === undefined ? target.provider : `${target.provider}/${target.model}`,
    percent,
    per_minute: perMinute,
    budget: `${SHADOW_TEAM} ${shadowName(name)}`,
    stopped: states.find(({ stopped }) => stopped !== null)?.stopped ?? null,
    sent: counts.sent,
    answered: counts.answered,
    failed: counts.failed,
    waiting: states.reduce((sum, { waiting }) => sum + waiting, 0),
    // The names are those of reasons.
    left_out: Object.entries(counts.leftOut).map(([reason, count]) => ({ reason: reason as LeftOut, count })),
    same_finish: counts.sameFinish,
    same_tools: counts.sameTools,
    priced: counts.priced,
    client: meansOf(counts, counts.own),
    shadow: meansOf(counts, counts.other),
    recent: recent.slice(0, RECENT).map(pairShown),
  }
}

const SIDE_SHOWN = {
  ...{ provider: 'openai', model: 'gpt-5', status: 200, failure: null, first_content_ms: 410, total_ms: 1_900 },
  ...{ input_tokens: 900, output_tokens: 120, estimated: false, cost: '0.002325000' },
  ...{ finish: 'stop', tools: [], characters: 480 },
}
const MEANS_SHOWN = {
  ...{ first_content_ms: 402.5, total_ms: 1_875.2, input_tokens: 903.1, output_tokens: 118.4 },
  ...{ characters: 471.9, cost: '0.094210000' },
}

const SHADOW_SHOWN = {
  object: 'shadow' as const,
  route: 'fast',
  target: 'anthropic/claude-haiku-4-5',
  percent: 5,
  per_minute: 60,
  budget: 'shadow fast',
  stopped: null,
  ...{ sent: 41, answered: 40, failed: 1, waiting: 0 },
  left_out: [{ reason: 'effects' as const, count: 3 }],
  ...{ same_finish: 39, same_tools: 40, priced: 40 },
  client: MEANS_SHOWN,
  shadow: { ...MEANS_SHOWN, total_ms: 1_210.7, cost: '0.061880000' },
  recent: [
    {
      ...{ id: 'req_abcdefghijklmnopqrst', copy: 'req_bcdefghijklmnopqrstu', at: '2026-11-28T08:00:00.000Z' },
      ...{ style: 'chat', stream: false },
      client: SIDE_SHOWN,
      shadow: { ...SIDE_SHOWN, provider: 'anthropic', model: 'claude-haiku-4-5', total_ms: 1_200 },
    },
  ],
}

export const shadowRows = [
  row({
    method: 'GET',
    path: '/shadows',
    summary: 'List the shadows of routes with what was compared since the start',
    about:
      'Means of pairs of which both have answered, of all processes and of the other gateways that share a database. Texts are not kept; where bodies are, both requests have them.',
    role: 'viewer',
    scope: 'all',
    answer: SHADOWS,
    example: {
      answer: {
        ...{ object: 'list', data: [SHADOW_SHOWN], has_more: false, next: null },
        processes: { answered: 1, of: 1 },
      },
    },
    async handle(deps) {
      const { answers, of } = await askProcesses(deps, { do: 'shadows' })
      // See `answerHere`.
      const states = answers.flatMap(({ value }) => value.shadows as unknown as readonly ShadowState[])
      const data = [...deps.gateway.config().routes.values()].flatMap((route) =>
        route.shadow
          ? [
              shown(
                route,
                route.shadow,
                states.filter((one) => one.route === route.name),
              ),
            ]
          : [],
      )
      const body = { object: 'list' as const, data, has_more: false, next: null }
      return good({ body: { ...body, processes: { answered: answers.length, of } } })
    },
  }),
]
