/** Canaries of routes: their states, and what an operator does with them. */
import { z } from 'zod'

import { type CanaryState, canaryStateText } from '../../../core/canary.ts'
import { bad, fail, good } from '../../../core/failure.ts'
import type { Route } from '../../../core/route.ts'
import { canaryShare } from '../../../policy/routing/canary.ts'
import { CANARIES, CANARY, CANARY_ACTIONS } from '../../answers/canaries.ts'
import { runFor } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { row } from '../row.ts'

const shown = ({ name, targets, canary }: Route, state: CanaryState): z.input<typeof CANARY> | null => {
  const target = canary && targets[canary.target]
  if (!canary || !target) return null
  return {
    object: 'canary',
    route: name,
    target: target.model === undefined ? target.provider : `${target.provider}/${target.model}`,
    status: state.status,
    step: Math.min(state.step, canary.steps.length - 1) + 1,
    steps: [...canary.steps],
    share: canaryShare(canary, state),
    since: new Date(state.since).toISOString(),
    reason: state.reason === '' ? null : state.reason,
  }
}

const stateOf = ({ gateway }: AdminDeps, route: Route): CanaryState => gateway.health.canaries.stateOf(route.name)

const CANARY_SHOWN = {
  object: 'canary' as const,
  route: 'fast',
  target: 'openai/gpt-6.1-sol',
  status: 'running' as const,
  step: 2,
  steps: [1, 5, 25, 100],
  share: 5,
  since: '2026-11-28T08:00:00.000Z',
  reason: null,
}

const NO_CANARY = fail('not_found', 'No route with this name has a canary. GET /admin/api/v1/canaries lists them.')

const action = z.strictObject({
  route: z.string().min(1).max(400).describe('The name of the route'),
  action: z
    .enum(CANARY_ACTIONS)
    .describe(
      '`pause`: the share stays, `resume`: it grows again, after a stop from the first step; `promote`: it has the share of the last step at once; `back`: the share is 0',
    ),
})

export const canaryRows = [
  row({
    method: 'GET',
    path: '/canaries',
    summary: 'List the canaries of routes with their shares',
    role: 'viewer',
    scope: 'all',
    answer: CANARIES,
    example: { answer: { object: 'list', data: [CANARY_SHOWN], has_more: false, next: null } },
    handle(deps) {
      const routes = [...deps.gateway.config().routes.values()]
      const data = routes.flatMap((route) => shown(route, stateOf(deps, route)) ?? [])
      return good({ body: { object: 'list' as const, data, has_more: false, next: null } })
    },
  }),
  row({
    method: 'POST',
    path: '/canaries',
    summary: 'Pause, resume or promote the canary of a route, or send its share back to the other targets',
    role: 'operator',
    scope: 'all',
    body: action,
    answer: CANARY,
    example: {
      body: { route: 'fast', action: 'pause' },
      answer: { ...CANARY_SHOWN, status: 'paused' },
    },
    async handle(deps, call) {
      const { body, actor } = call
      const route = deps.gateway.config().routes.get(body.route)
      if (!route?.canary) return bad(NO_CANARY)
      const before = stateOf(deps, route)
      const state = afterAction(before, body.action, {
        ...{ now: deps.gateway.world.date(), actor: actor?.name ?? '', last: route.canary.steps.length - 1 },
      })
      const stored = await runFor(deps.control, call, {
        ...{ do: 'decide', kind: 'canary', id: route.name, state: canaryStateText(state), until: null },
        reason: state.reason,
      } as const)
      if (!stored.ok) return stored
      const after = shown(route, state)
      return after ? good({ body: after }) : bad(NO_CANARY)
    },
  }),
]

/** The state after an action of an operator. */
const afterAction = (
  before: CanaryState,
  asked: z.output<typeof action>['action'],
  { now, actor, last }: { readonly now: number; readonly actor: string; readonly last: number },
): CanaryState => {
  switch (asked) {
    case 'pause':
      return before.status === 'running' ? { ...before, status: 'paused' } : before
    case 'resume':
      return { status: 'running', step: before.status === 'stopped' ? 0 : before.step, since: now, reason: '' }
    case 'promote':
      return { status: 'running', step: last, since: now, reason: '' }
    case 'back':
      return { status: 'stopped', step: before.step, since: now, reason: `sent back by ${actor}`.slice(0, 200) }
    default:
      throw new Error(`unknown action ${JSON.stringify(asked satisfies never)}`)
  }
}
