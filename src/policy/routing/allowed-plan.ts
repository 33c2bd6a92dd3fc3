/** Removes the targets from a plan that the client's key may not use. */
import { type Failure, fail } from '../../core/failure.ts'
import { allowsTarget, type KeyAccessRules } from '../accounts/key-access.ts'
import { nearestModels, type PlanDraft, quoted } from './plan.ts'

/**
 * The draft with allowed targets only. Null: no target that the name refers to is left, so the request is refused, also if
 * targets for failover are allowed. `requested`: the name as the client sent it; null: the default route of the key
 * replaced it.
 *
 * The requested name allows only targets that it refers to, such as those of a route. A target for failover must be
 * allowed by its own name.
 */
export const allowedDraft = (draft: PlanDraft, rules: KeyAccessRules, requested: string | null): PlanDraft | null => {
  const name = draft.by === 'default' ? null : requested
  const allows = (provider: string, model: string, own: boolean) =>
    allowsTarget(rules, { requested: own ? name : null, provider, model })
  const groups = draft.groups.map((group) => ({
    ...group,
    candidates: group.candidates.filter(({ instance, model }) => allows(instance.id, model, group.own)),
  }))
  if (!groups.some(({ own, candidates }) => own && candidates.length > 0)) return null
  return { ...draft, groups, skipped: draft.skipped.filter(({ provider, model }) => allows(provider, model, false)) }
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
