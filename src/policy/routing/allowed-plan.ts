/** Removes the targets from a plan that the client's key may not use, that do not satisfy the data policy, or whose condition is not met. */
import type { Config } from '../../core/config.ts'
import type { Require } from '../../core/data-policy.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { SkippedTarget } from '../../core/skipped-target.ts'
import type { Candidate } from '../../core/target.ts'
import { factsText, lackOf, lackText, missingFacts, requireText } from '../accounts/data-policy.ts'
import { allowsTarget, type TargetLists } from '../accounts/key-access.ts'
import { isOthers } from './models.ts'
import { nearestModels, type PlanDraft, quoted } from './plan.ts'
import { type RequestFacts, unmet } from './when.ts'

/**
 * The draft with allowed targets only. Null: no target that the name refers to is left, so the request is refused, also if
 * targets for failover are allowed. `requested`: the name as the client sent it; null: the default route of the key
 * replaced it.
 *
 * The requested name allows only targets that it refers to, such as those of a route. A target for failover must be
 * allowed by its own name.
 */
export const allowedDraft = (draft: PlanDraft, { rules, requested, config }: DraftAccess): PlanDraft | null => {
  const name = draft.by === 'default' ? null : requested
  const allows = (provider: string, model: string, own: boolean) =>
    allowsTarget(rules, {
      requested: own ? name : null,
      provider,
      model,
      isOthers: rules.models.length > 0 && isOthers(config, provider, model),
    })
  const left = filtered(draft, ({ instance, model }, own) => allows(instance.id, model, own))
  return left && { ...left, skipped: draft.skipped.filter(({ provider, model }) => allows(provider, model, false)) }
}

export type DraftAccess = {
  readonly rules: TargetLists
  readonly requested: string | null
  /** With the providers whose names the models of others may begin with. */
  readonly config: Pick<Config, 'instances'>
}

/** The draft with some of its candidates; null: none is left that the name refers to. */
const filtered = (
  draft: PlanDraft,
  stays: (candidate: Candidate, own: PlanDraft['groups'][number]['own']) => boolean,
): PlanDraft | null => {
  const groups = draft.groups.map((group) => ({
    ...group,
    candidates: group.candidates.filter((one) => stays(one, group.own)),
  }))
  // A request that names no model has asked for none of them.
  const isLeft = groups.some(({ own, candidates }) => (own || draft.by === 'default') && candidates.length > 0)
  return isLeft ? { ...draft, groups } : null
}

/**
 * The draft with the targets that satisfy the requirement. Fails with `data_policy` if none is left that the name refers to, also
 * if targets for failover would satisfy it: a request is not answered by a model that it did not name only because of the policy.
 */
export const satisfyingDraft = (draft: PlanDraft, require: Require, requested: string): Outcome<PlanDraft> => {
  const withheld: { readonly candidate: Candidate; readonly lack: string }[] = []
  const left = filtered(draft, (candidate) => {
    const lack = lackOf(require, candidate)
    if (lack) withheld.push({ candidate, lack: lackText(lack) })
    return lack === null
  })
  if (!left) return bad(refusedByPolicy(require, requested, withheld))
  if (withheld.length === 0) return good(draft)
  const skipped = withheld.map(({ candidate: { instance, model }, lack }) => ({
    provider: instance.id,
    model,
    why: `policy: ${lack}`,
  }))
  return good({ ...left, skipped: [...draft.skipped, ...skipped] })
}

/**
 * The draft with the targets whose condition the request meets. Fails with `no_matching_target` if none is left that the name refers
 * to, also if targets for failover are.
 */
export const meetingDraft = (draft: PlanDraft, facts: RequestFacts, requested: string): Outcome<PlanDraft> => {
  if (!draft.isConditional) return good(draft)
  const reasons = new Map<Candidate, string>()
  const left = filtered(draft, (candidate) => {
    const missed = candidate.when && unmet(candidate.when, facts)
    if (missed) reasons.set(candidate, missed.text)
    return !missed
  })
  if (left && reasons.size === 0) return good(draft)
  const targets = [...reasons.keys()]
    .slice(0, MAX_NAMED.trail)
    .map(({ instance, model }): SkippedTarget => ({ provider: instance.id, model, key: '', why: 'when' }))
  if (!left) {
    const texts = [...new Set(reasons.values())].slice(0, MAX_NAMED.message)
    const message = `No target of ${quoted(requested)} takes this request: ${texts.join('; ')}.`
    return bad(fail('no_matching_target', message, { param: 'model', withheld: { targets } }))
  }
  const skipped = [...reasons].map(([{ instance, model }, text]) => ({
    provider: instance.id,
    model,
    why: `when: ${text}`,
  }))
  return good({ ...left, skipped: [...draft.skipped, ...skipped], unmet: targets })
}

/** Targets that a message names, and that the trail lists. */
const MAX_NAMED = { message: 3, trail: 12 }

const refusedByPolicy = (
  require: Require,
  requested: string,
  withheld: readonly { readonly candidate: Candidate; readonly lack: string }[],
): Failure => {
  const named = withheld
    .slice(0, MAX_NAMED.message)
    .map(({ candidate: { instance, model }, lack }) => `${instance.id}/${model} (${lack})`)
  const others = withheld.length > MAX_NAMED.message ? ` and ${withheld.length - MAX_NAMED.message} more` : ''
  const text = requireText(require)
  return fail(
    'data_policy',
    `No target of ${quoted(requested)} satisfies ${text}: ${named.join(', ')}${others}. GET /v1/models lists the models that do.${declaring(require, withheld)}`,
    {
      param: 'model',
      withheld: {
        require: text,
        targets: withheld.slice(0, MAX_NAMED.trail).map(
          ({ candidate: { instance, model } }): SkippedTarget => ({
            provider: instance.id,
            model,
            key: instance.keys[0]?.id ?? '',
            why: 'policy',
          }),
        ),
      },
    },
  )
}

/** The lines for the configuration file by which targets would satisfy a requirement; empty: what is declared is against it. */
const declaring = (require: Require, withheld: readonly { readonly candidate: Candidate }[]): string => {
  const lines = new Map<string, string>()
  for (const { candidate } of withheld) {
    const missing = missingFacts(require, candidate)
    if (missing) lines.set(candidate.instance.id, `${candidate.instance.id}: { facts: ${factsText(missing)} }`)
  }
  if (lines.size === 0) return ''
  const some = [...lines.values()].slice(0, MAX_NAMED.message).join(', ')
  return ` Facts that are not declared satisfy nothing. If your contract has them, the operator adds to headgate.yaml: providers: { ${some} }`
}

/** The failure of a model that the key may not use. `names`: the models it may use. */
export const modelNotAllowed = (model: string, names: readonly string[]): Failure => {
  const near = nearestModels(model, names)
  const some = near.length > 0 ? near : names.slice(0, 3).map(quoted)
  const hint =
    some.length > 0
      ? `It may use ${some.join(' or ')}; GET /v1/models lists all.`
      : 'It may use no model that is configured; the operator sets its access.'
  return fail('model_not_allowed', `This key may not use the model ${quoted(model)}. ${hint}`, { param: 'model' })
}

/** The failure of an API style that the key may not use. */
export const styleNotAllowed = (style: string): Failure =>
  fail('style_not_allowed', `This key may not use the API style ${quoted(style)}. The operator sets its access.`)
