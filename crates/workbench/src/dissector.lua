-- The same for every format: a row of headers, then payload.

local function text(name) return (name:gsub("_", " ")) end

-- Makes the protocol of a format and the fields of its tables.
local function declare(format)
  local proto = Proto("tidegate_" .. format.name, "Tidegate " .. text(format.name))
  local fields = {}
  local function add(field)
    fields[#fields + 1] = field
    return field
  end
  local prefix = "tidegate_" .. format.name .. "."
  local kinds = {}
  for _, kind in ipairs(format.kinds) do kinds[kind.number] = kind.name end
  format.version_field = add(ProtoField.uint8(prefix .. "version", "Version", base.DEC))
  format.kind_field = add(ProtoField.uint8(prefix .. "kind", "Kind", base.DEC, kinds))
  format.flags_field = add(ProtoField.uint8(prefix .. "flags", "Flags", base.HEX))
  format.words_field = add(ProtoField.uint8(prefix .. "length", "Length in words", base.DEC))
  format.payload_field = add(ProtoField.uint32(prefix .. "payload_bytes", "Payload bytes", base.DEC,
    nil, nil, "Payload that follows the headers"))
  for _, kind in ipairs(format.kinds) do
    local start = prefix .. kind.name:lower() .. "."
    for bit, flag in ipairs(kind.flags) do
      flag.field = add(ProtoField.bool(start .. flag.name, text(flag.name), 8, nil, 2 ^ (bit - 1),
        flag.doc))
    end
    for _, list in ipairs({ kind.fields, kind.list }) do
      for _, field in ipairs(list) do
        local make = field.bytes == 8 and ProtoField.uint64 or ProtoField.uint32
        local shown, unit = base.DEC, nil
        if field.shown == "bits" then shown = base.HEX end
        if field.unit then shown, unit = base.DEC + base.UNIT_STRING, { " " .. field.unit } end
        field.field = add(make(start .. field.name, text(field.name), shown, unit, nil, field.doc))
      end
    end
  end
  format.wrong = ProtoExpert.new(prefix .. "wrong", "Not a header that is known",
    expert.group.MALFORMED, expert.severity.ERROR)
  proto.fields = fields
  proto.experts = { format.wrong }
  format.proto = proto
end

local function find(format, number)
  for _, kind in ipairs(format.kinds) do
    if kind.number == number then return kind end
  end
end

local function bytes_of(fields)
  local bytes = 0
  for _, field in ipairs(fields) do bytes = bytes + field.bytes end
  return bytes
end

-- Shows fields from `at` on; where they end, and what to say of them in a line.
local function show(fields, buffer, at, tree)
  local said = ""
  for _, field in ipairs(fields) do
    local range = buffer(at, field.bytes)
    tree:add(field.field, range)
    if field.shown == "number" then
      local value = field.bytes == 8 and range:uint64() or range:uint()
      said = said .. " " .. field.name .. "=" .. tostring(value)
    end
    at = at + field.bytes
  end
  return at, said
end

-- Shows the header at `at`; where it ends, and what to say of it. Nothing where it is none.
local function header(format, buffer, at, tree)
  local function wrong(why)
    tree:add_proto_expert_info(format.wrong, why)
  end
  if buffer:len() < at + 4 then return wrong("too short") end
  local version, number = buffer(at, 1):uint(), buffer(at + 1, 1):uint()
  local flags, length = buffer(at + 2, 1):uint(), 4 * buffer(at + 3, 1):uint()
  local kind = find(format, number)
  if version ~= format.version then return wrong("version " .. version) end
  if not kind then return wrong("kind " .. number) end
  if flags >= 2 ^ #kind.flags then return wrong("flags without a meaning") end
  local records, record = length - 4 - bytes_of(kind.fields), bytes_of(kind.list)
  if records < 0 or (record == 0 and records > 0) or (record > 0 and records % record > 0) then
    return wrong("length of " .. length)
  end
  if buffer:len() < at + length then return wrong("too short") end

  tree = tree:add(format.proto, buffer(at, length), "Tidegate " .. text(format.name) .. ", "
    .. kind.name)
  tree:add(format.version_field, buffer(at, 1))
  tree:add(format.kind_field, buffer(at + 1, 1))
  local flag_tree = tree:add(format.flags_field, buffer(at + 2, 1))
  tree:add(format.words_field, buffer(at + 3, 1))
  local said = kind.name
  for bit, flag in ipairs(kind.flags) do
    flag_tree:add(flag.field, buffer(at + 2, 1))
    if math.floor(flags / 2 ^ (bit - 1)) % 2 == 1 then said = said .. " " .. flag.name end
  end
  local next, values = show(kind.fields, buffer, at + 4, tree)
  for start = next, at + length - 1, math.max(record, 1) do
    show(kind.list, buffer, start, tree:add(buffer(start, record), "Record"))
  end
  return at + length, said .. values, tree
end

local function dissector(telemetry, format)
  return function(buffer, pinfo, tree)
    local at = 0
    while buffer:len() >= at + 4 and buffer(at + 1, 1):uint() >= telemetry.first do
      at = header(telemetry, buffer, at, tree)
      if not at then return end
    end
    local next, said, own = header(format, buffer, at, tree)
    if not next then return end
    local payload = buffer:reported_len() - next
    own:add(format.payload_field, payload):set_generated()
    pinfo.cols.protocol = "tidegate"
    pinfo.cols.info = text(format.name) .. " " .. said .. " payload=" .. payload
  end
end

for _, format in ipairs(formats) do declare(format) end
for place = 2, #formats do
  local format = formats[place]
  format.proto.dissector = dissector(formats[1], format)
  DissectorTable.get("udp.port"):add(format.port, format.proto)
end
