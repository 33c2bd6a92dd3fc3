/** Reading vendors' lists of models, of which only those that write text are of use here. */
import { isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'

/** The usual list, `{data:[{id}]}`, narrowed to entries that `keep` says yes to. */
export const idsWhere =
  (keep: (entry: JsonObject, id: string) => boolean) =>
  (body: Json): readonly string[] =>
    entriesOf(body).flatMap((entry) => {
      const id = text(entry.id)
      return id !== undefined && id !== '' && keep(entry, id) ? [id] : []
    })

/** `{data:[…]}`, or the bare array that Together answers. */
const entriesOf = (body: Json): readonly JsonObject[] =>
  (Array.isArray(body) ? list(body) : list(object(body)?.data)).filter(isObject)

/** What model names say of models that do not chat: for vendors whose lists do not say it themselves. */
const NOT_CHAT =
  /embed|rerank|whisper|transcribe|\btts\b|-tts|orpheus|playai|moderation|guard|dall-e|image|imagine|\bsora|\bveo|lyria|flux|stable-diffusion|realtime|\blive\b|native-audio|\baqa\b|babbage|davinci|ocr|parakeet|speech|video/i

/** Entries whose names do not say that they are for something else than chat. */
export const chatIds = idsWhere((_entry, id) => !NOT_CHAT.test(id))
