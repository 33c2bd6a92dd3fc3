/** Changes the settings of a body in the client's own format: only the members that have them, so that all others keep their bytes. */
import type { GenerationSettings } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject } from '../../core/json.ts'
import type { SameFormat } from '../../core/protocol.ts'
import { OVERRIDE_NAMES } from '../../policy/routing/override.ts'

/** The settings of the client and those that the target receives. */
type ChangedSettings = { readonly before: GenerationSettings; readonly after: GenerationSettings }

/** The body with the settings after the override. `lost`: the paths of those that the format has no member for. */
export const bodyWithSettings = (
  body: JsonObject,
  { before, after }: ChangedSettings,
  { settings = {}, lowerOutput }: Pick<SameFormat, 'settings' | 'lowerOutput'>,
): { readonly body: JsonObject; readonly lost: readonly string[] } => {
  const lost: string[] = []
  let changed = body
  for (const name of OVERRIDE_NAMES) {
    const [own, wanted] = [before[name], after[name]]
    if (own === wanted) continue
    const member = settings[name]
    if (wanted === undefined) {
      if (own && own.at !== '' && member?.isRequired !== true) changed = withMember(changed, own.at, undefined)
      continue
    }
    // What is below the limit of the output must fit.
    if (name === 'maxOutputTokens' && typeof wanted.value === 'number')
      changed = lowerOutput(changed, wanted.value).body
    const value = member?.encode ? member.encode(wanted.value, changed) : wanted.value
    if (!member || value === undefined) lost.push(wanted.at)
    // The client may use another name of the member.
    else changed = withMember(changed, member.encode || !own?.at ? member.path : own.at, value)
  }
  return { body: changed, lost }
}

/** The object with a member at a path, or without it and without objects that are empty then. */
const withMember = (body: JsonObject, path: string, value: Json | undefined): JsonObject => {
  const [name = '', ...rest] = path.split('.')
  const { [name]: inner, ...others } = body
  if (rest.length === 0) return value === undefined ? others : { ...body, [name]: value }
  const within = withMember(isObject(inner) ? inner : {}, rest.join('.'), value)
  return Object.keys(within).length === 0 ? others : { ...body, [name]: within }
}
