# A reverse proxy of one origin. Lines of a recipe stand below `# in …`.
vcl 4.1;
import std;
backend default {
    .host = "127.0.0.1";
    .port = "8000";
    # in backend
}
# in vcl
