-- Common to all formats: headers, then payload. In live UDP mode a datagram has a session header
-- after those of the transport, then encrypted content; or it has only a session header.

local TAG_BYTES = 16

local function text(name) return (name:gsub("_", " ")) end

-- Declares the protocol of a format and the fields of its tables.
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
        if field.shown == "bytes" then
          field.field = add(ProtoField.bytes(start .. field.name, text(field.name), base.NONE,
            field.doc))
        else
          field.field = add(make(start .. field.name, text(field.name), shown, unit, nil,
            field.doc))
        end
      end
    end
  end
  if format.place == "session" then
    format.other_field = add(ProtoField.bytes(prefix .. "transport", "Header of a transport",
      base.NONE, "The transport is unknown, because the handshake is not in the capture"))
    format.sealed_field = add(ProtoField.bytes(prefix .. "sealed", "Sealed", base.NONE,
      "Payload or control data, encrypted; readable with the session key only"))
    format.tag_field = add(ProtoField.bytes(prefix .. "tag", "Tag", base.NONE,
      "Authenticates the datagram"))
  end
  format.wrong = ProtoExpert.new(prefix .. "wrong", "Unknown header",
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

-- Adds fields from `at` to the tree. Returns the end offset, and a one-line summary.
local function show(fields, buffer, at, tree)
  local summary = ""
  for _, field in ipairs(fields) do
    local range = buffer(at, field.bytes)
    tree:add(field.field, range)
    if field.shown == "number" then
      local value = field.bytes == 8 and range:uint64() or range:uint()
      summary = summary .. " " .. field.name .. "=" .. tostring(value)
    end
    at = at + field.bytes
  end
  return at, summary
end

-- Adds the header at `at`. Returns its end offset and a summary; nothing if it is invalid.
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
  local summary = kind.name
  for bit, flag in ipairs(kind.flags) do
    flag_tree:add(flag.field, buffer(at + 2, 1))
    if math.floor(flags / 2 ^ (bit - 1)) % 2 == 1 then summary = summary .. " " .. flag.name end
  end
  local next, values = show(kind.fields, buffer, at + 4, tree)
  for start = next, at + length - 1, math.max(record, 1) do
    show(kind.list, buffer, start, tree:add(buffer(start, record), "Record"))
  end
  return at + length, summary .. values, tree
end

-- Adds telemetry at the beginning. Returns its end offset; nothing if it is invalid.
local function stamps(telemetry, buffer, tree)
  local at = 0
  while at and buffer:len() >= at + 4 and buffer(at + 1, 1):uint() >= telemetry.first do
    at = header(telemetry, buffer, at, tree)
  end
  return at
end

local function columns(pinfo, summary)
  pinfo.cols.protocol = "tidegate"
  pinfo.cols.info = summary
end

-- Packets of the simulator.
local function simulated(telemetry, format)
  return function(buffer, pinfo, tree)
    local at = stamps(telemetry, buffer, tree)
    if not at then return end
    local next, summary, own = header(format, buffer, at, tree)
    if not next then return end
    local payload = buffer:reported_len() - next
    own:add(format.payload_field, payload):set_generated()
    columns(pinfo, text(format.name) .. " " .. summary .. " payload=" .. payload)
  end
end

-- Session headers between the header of a transport and its payload.
local OF_PACKETS = { Data = true, Multipath = true, Trimmable = true }

-- Offset of the session header; nothing if there is none. The length field is the same in the
-- headers of all formats.
local function session_at(session, buffer)
  local at = 0
  while buffer:len() >= at + 4 do
    local version, number = buffer(at, 1):uint(), buffer(at + 1, 1):uint()
    local length = 4 * buffer(at + 3, 1):uint()
    local kind = find(session, number)
    if kind then
      local is_whole = length == 4 + bytes_of(kind.fields) and buffer:len() >= at + length
      local is_alone = buffer:reported_len() == at + length
      -- The padding of a Hello has no meaning.
      is_alone = is_alone or kind.name == "Hello"
      local is_right = version == session.version and is_whole and buffer(at + 2, 1):uint() == 0
      local is_packet = OF_PACKETS[kind.name] or false
      local has_more = is_packet or kind.name == "Control"
      -- A switch may cut everything behind this header.
      local is_there = is_packet == (at > 0) and (is_alone ~= has_more or kind.name == "Trimmable")
      return is_right and is_there and at or nil
    end
    if length < 4 then return nil end
    at = at + length
  end
end

-- Value of a field of the session header at `at`.
local function value(session, buffer, at, name)
  local kind = find(session, buffer(at + 1, 1):uint())
  at = at + 4
  for _, field in ipairs(kind.fields) do
    if field.name == name then return buffer(at, field.bytes) end
    at = at + field.bytes
  end
end

-- Transports of sessions by session id, learnt from the handshake.
local transports = {}

-- Learns the transport of a session from its handshake.
local function learn(session, by_protocol, buffer, name)
  local function id(field) return tostring(value(session, buffer, 0, field):uint64()) end
  if name == "Hello" then
    transports[id("id")] = by_protocol[value(session, buffer, 0, "protocol"):stringz()]
  elseif name == "Accept" then
    transports[id("id")] = transports[id("to")]
  end
end

-- Packets of live UDP mode, on any port.
local function real(telemetry, session, by_protocol)
  return function(buffer, pinfo, tree)
    local at = session_at(session, buffer)
    if not at then return false end
    local summary, line = "", nil
    if at > 0 then
      local next = stamps(telemetry, buffer, tree)
      local transport = transports[tostring(value(session, buffer, at, "to"):uint64())]
      if next and next < at then
        if transport then
          next, line = header(transport, buffer, next, tree)
          summary = next and text(transport.name) .. " " .. line .. ", " or ""
        else
          tree:add(session.other_field, buffer(next, at - next))
        end
      end
    end
    local name = find(session, buffer(at + 1, 1):uint()).name
    local next, details, own = header(session, buffer, at, tree)
    if at == 0 then learn(session, by_protocol, buffer, name) end
    local sealed = buffer:reported_len() - next - TAG_BYTES
    if sealed >= 0 and (OF_PACKETS[name] or name == "Control") then
      local kept = math.min(sealed, buffer:len() - next)
      if kept > 0 then own:add(session.sealed_field, buffer(next, kept)) end
      if buffer:len() == buffer:reported_len() then
        own:add(session.tag_field, buffer(next + sealed, TAG_BYTES))
      end
      details = details .. " sealed=" .. sealed
    end
    columns(pinfo, summary .. "session " .. details)
    return true
  end
end

local placed, by_protocol = {}, {}
for _, format in ipairs(formats) do
  declare(format)
  placed[format.place] = format
  for _, protocol in ipairs(format.protocols) do by_protocol[protocol] = format end
end
local telemetry, session = placed.telemetry, placed.session
for _, format in ipairs(formats) do
  if format.place == "transport" then
    format.proto.dissector = simulated(telemetry, format)
    DissectorTable.get("udp.port"):add(format.port, format.proto)
  end
end
local of_session = real(telemetry, session, by_protocol)
session.proto.init = function() transports = {} end
session.proto.dissector = function(buffer, pinfo, tree)
  return of_session(buffer, pinfo, tree) and buffer:len() or 0
end
session.proto:register_heuristic("udp", of_session)
DissectorTable.get("udp.port"):add(session.port, session.proto)
