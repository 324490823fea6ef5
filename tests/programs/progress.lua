-- For wrk: $PROGRESS is a file that gets a byte for every hundred answers of a thread.
local progress = io.open(os.getenv("PROGRESS"), "a")
local answers = 0

function response()
	answers = answers + 1
	if answers % 100 == 0 then
		progress:write(".")
		progress:flush()
	end
end
